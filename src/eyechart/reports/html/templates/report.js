// Behavior of the page: theme, models, pickers, sorting, the image slider, printing.
(function () {
  "use strict";
  const root = document.documentElement;
  const status = document.getElementById("status");
  const all = (selector, within) => Array.from((within || document).querySelectorAll(selector));
  const tell = (name, detail) => window.dispatchEvent(new CustomEvent(name, { detail: detail }));

  function say(text) {
    status.textContent = text;
  }

  // Theme: the reader's choice overrides the system's.
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const toggle = document.getElementById("theme");

  function theme() {
    return root.dataset.theme || (dark.matches ? "dark" : "light");
  }

  function nameTheme() {
    toggle.setAttribute("aria-label", theme() === "dark" ? "Light page" : "Dark page");
    toggle.textContent = theme() === "dark" ? "Light" : "Dark";
  }

  toggle.hidden = false;
  nameTheme();
  toggle.addEventListener("click", function () {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("eyechart-theme", root.dataset.theme);
    } catch (error) {
      // Storage is not available, so the choice is not remembered.
    }
    nameTheme();
    tell("theme-changed", { theme: root.dataset.theme });
  });
  dark.addEventListener("change", function () {
    nameTheme();
    tell("theme-changed", { theme: theme() });
  });

  // Models: show and hide their curves.
  const boxes = all("[data-model-toggle]");
  boxes.forEach(function (box) {
    box.addEventListener("change", function () {
      const hidden = boxes.filter((own) => !own.checked).map((own) => own.dataset.modelToggle);
      tell("models-changed", { hidden: hidden });
      const name = box.parentElement.textContent.trim();
      say(name + (box.checked ? " is shown in charts" : " is hidden in charts"));
    });
  });

  // Pickers: show only the selected one of the elements that belong to a select.
  function pick(select) {
    all("[data-picked]").forEach(function (own) {
      if (own.dataset.picked === select.dataset.picks) {
        own.hidden = own.dataset.value !== select.value;
      }
    });
    tell("panel-shown", { picked: select.value });
  }

  const selects = all("select[data-picks]");
  selects.forEach(function (select) {
    select.addEventListener("change", () => pick(select));
    pick(select);
  });
  all("button[data-step]").forEach(function (button) {
    button.addEventListener("click", function () {
      const select = document.getElementById(button.dataset.of);
      const count = select.options.length;
      select.selectedIndex = (select.selectedIndex + Number(button.dataset.step) + count) % count;
      pick(select);
      say(select.options[select.selectedIndex].textContent);
    });
  });

  // Strips: select the model whose predictions are shown.
  const predictions = document.getElementById("predictions");

  function showAnswers() {
    // The page of one model has no such select, and shows all predictions.
    all(".prediction[data-predictions]").forEach(function (own) {
      own.hidden = Boolean(predictions) && own.dataset.predictions !== predictions.value;
    });
    all(".frame").forEach(function (frame) {
      frame.classList.toggle("fails-first", Boolean(frame.querySelector(".prediction:not([hidden]) .first")));
    });
  }

  if (predictions) predictions.addEventListener("change", showAnswers);
  showAnswers();

  // The slider: a larger image with the predictions of all models.
  function words(frame) {
    const strength = frame.querySelector(".strength").textContent;
    const shown = [frame.querySelector(".where strong").textContent, strength];
    shown.push(frame.querySelector(".truth").textContent);
    return shown.filter(Boolean).join(", ");
  }

  function look(viewer, frames, place) {
    const frame = frames[place];
    const image = viewer.querySelector("[data-viewer-image]");
    const own = frame.querySelector("img");
    image.hidden = !own;
    if (own) {
      image.src = own.src;
      image.alt = own.alt;
    }
    viewer.querySelector("[data-viewer-where]").textContent = words(frame);
    const list = viewer.querySelector("[data-viewer-prediction]");
    list.textContent = "";
    all(".prediction", frame).forEach(function (said) {
      const line = document.createElement("li");
      if (predictions) {
        const name = document.createElement("strong");
        name.textContent = predictions.options[Number(said.dataset.predictions)].textContent + ": ";
        line.append(name);
      }
      line.append(...Array.from(said.cloneNode(true).childNodes));
      list.append(line);
    });
    frames.forEach((each, at) => each.classList.toggle("looked-at", at === place));
    return frame;
  }

  all(".panel").forEach(function (panel) {
    const viewer = panel.querySelector("[data-viewer]");
    const frames = all(".frame", panel);
    if (!viewer || !frames.length) return;
    const slider = viewer.querySelector("input[type=range]");
    const move = function () {
      const frame = look(viewer, frames, Number(slider.value));
      slider.setAttribute("aria-valuetext", words(frame));
      const box = panel.querySelector(".strip-box");
      const left = frame.offsetLeft - box.offsetLeft;
      if (left < box.scrollLeft || left + frame.offsetWidth > box.scrollLeft + box.clientWidth) {
        box.scrollLeft = left - (box.clientWidth - frame.offsetWidth) / 2;
      }
    };
    viewer.hidden = false;
    slider.addEventListener("input", move);
    move();
  });

  // Sorting: by the number in a cell, or by its text.
  function key(cell) {
    const number = cell.querySelector("data");
    return number ? Number(number.value) : cell.textContent.trim();
  }

  function compare(one, two) {
    const numbers = [one, two].map((each) => typeof each === "number");
    if (numbers[0] && numbers[1]) return one - two;
    if (numbers[0] !== numbers[1]) return numbers[0] ? -1 : 1;
    return one.localeCompare(two, "en", { numeric: true });
  }

  function sort(table, column, descending) {
    const body = table.tBodies[0];
    const rows = Array.from(body.rows);
    const fixed = rows.filter((row) => row.classList.contains("total"));
    const moving = rows.filter((row) => !row.classList.contains("total"));
    const keyed = moving.map((row) => [key(row.cells[column]), row]);
    const empty = (own) => own[0] === "–" || own[0] === "";
    keyed.sort(function (one, two) {
      // Missing values are last in both directions.
      if (empty(one) !== empty(two)) return empty(one) ? 1 : -1;
      return (descending ? -1 : 1) * compare(one[0], two[0]);
    });
    body.append(...keyed.map((own) => own[1]), ...fixed);
  }

  all("table[data-sortable]").forEach(function (table) {
    const heads = all("tr.heads th", table);
    heads.forEach(function (head, column) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...Array.from(head.childNodes));
      head.append(button);
      button.addEventListener("click", function () {
        const before = head.getAttribute("aria-sort");
        const descending = before === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", descending ? "descending" : "ascending");
        sort(table, column, descending);
        say("Sorted by " + button.textContent + ", " + head.getAttribute("aria-sort"));
      });
    });
  });

  // Printing: show all corruptions and tables, regardless of the selection, before charts are redrawn.
  const opened = [];
  window.addEventListener("beforeprint", function () {
    // Switch to the width of paper first: charts are drawn for it before the browser's layout.
    root.classList.add("printing");
    all("[data-picked][hidden]").forEach((own) => { own.hidden = false; });
    all("details:not([open])").forEach(function (own) {
      own.open = true;
      opened.push(own);
    });
  });
  window.addEventListener("afterprint", function () {
    root.classList.remove("printing");
    opened.splice(0).forEach((own) => { own.open = false; });
    selects.forEach(pick);
  });
})();
