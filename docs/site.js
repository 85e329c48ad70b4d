// A table that is wider than the page can be scrolled with the keyboard: it can have the focus.
const watcher = new ResizeObserver(entries => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) {
      target.tabIndex = 0
      target.setAttribute("role", "group")
      target.setAttribute("aria-label", "Table, scrolls sideways")
    } else {
      for (const name of ["tabindex", "role", "aria-label"]) target.removeAttribute(name)
    }
  }
})

// The theme puts each table into such a box when the page is ready, which is before this is called.
document$.subscribe(() => {
  watcher.disconnect()
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap")) watcher.observe(box)
})
