for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
  const heads = [...table.querySelectorAll("th")].map(one => one.textContent);
  if (heads.length < 2) continue;
  table.dataset.cards = "";
  for (const row of table.querySelectorAll("tbody tr"))
    [...row.cells].forEach((cell, at) => { if (at > 1) cell.dataset.label = heads[at]; });
}
addEventListener("click", event => {
  const diagram = event.target.closest?.("div.mermaid");
  if (!diagram) return;
  const shape = diagram.offsetWidth / diagram.offsetHeight;
  const place = document.createComment("");
  const dialog = document.createElement("dialog");
  dialog.className = "wiki-diagram md-typeset";
  const end = event => {
    event.stopPropagation();
    diagram.style.width = "";
    place.replaceWith(diagram);
    dialog.remove();
  };
  dialog.addEventListener("click", end);
  dialog.addEventListener("close", end);
  diagram.replaceWith(place);
  dialog.append(diagram);
  document.body.append(dialog);
  dialog.showModal();
  diagram.style.width = "10000px";
  diagram.style.width = `${Math.ceil(diagram.offsetHeight * shape)}px`;
});
