// Runs before anything is drawn, so that a remembered theme does not flash.
(function () {
  "use strict";
  try {
    var theme = localStorage.getItem("eyechart-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch (error) {
    // no storage: the system's theme is used
  }
})();
