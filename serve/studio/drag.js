// Drags a chip or a group over the board by pointer events, into a row or between rows.

const DRAG_THRESHOLD_PX = 5; // smallest movement of a drag; less is a click
const ROW_EDGE_PX = 10; // distance from a row's edge that counts as between rows

/**
 * Handles a press on the element of `event`.
 *
 * @param fact the chip's fact; undefined: a group, which can only be dropped between rows.
 * @param callbacks `start()` is called when a drag begins, `end(target)` at its end; `target` is null if
 *   cancelled, else { group, alone (whether to insert a new group before `group`), position (in the group) }.
 */
export function drag(event, board, fact, { start, end }) {
  const source = event.currentTarget;
  const pressedAt = { x: event.clientX, y: event.clientY };
  const box = source.getBoundingClientRect();
  const marker = document.createElement("div");
  marker.className = "marker";
  let ghost = null;
  let target = null;

  const onMove = (move) => {
    if (!ghost) {
      if (Math.hypot(move.clientX - pressedAt.x, move.clientY - pressedAt.y) < DRAG_THRESHOLD_PX) return;
      ghost = source.cloneNode(true);
      ghost.classList.add("dragged");
      ghost.removeAttribute("data-key");
      ghost.setAttribute("aria-hidden", "true");
      ghost.style.width = `${box.width}px`;
      document.body.append(ghost, marker);
      source.classList.add("away");
      document.body.classList.add("grabbing");
      start();
    }
    move.preventDefault();
    ghost.style.transform = `translate(${move.clientX - pressedAt.x + box.x}px, ${move.clientY - pressedAt.y + box.y}px)`;
    scrollAtEdge(move.clientY);
    target = findTarget(board, move.clientX, move.clientY, fact);
    showMarker(marker, board, target);
  };
  const stop = (dropped) => {
    window.removeEventListener("pointermove", onMove);
    window.removeEventListener("pointerup", onRelease);
    window.removeEventListener("pointercancel", onCancel);
    window.removeEventListener("keydown", onKey, true);
    if (!ghost) return;
    ghost.remove();
    marker.remove();
    source.classList.remove("away");
    document.body.classList.remove("grabbing");
    for (const row of board.querySelectorAll(".over")) row.classList.remove("over");
    window.addEventListener("click", suppressClick, { capture: true, once: true });
    setTimeout(() => window.removeEventListener("click", suppressClick, true), 0);
    end(dropped ? target : null);
  };
  const onRelease = () => stop(true);
  const onCancel = () => stop(false);
  const onKey = (press) => {
    if (press.key !== "Escape") return;
    press.preventDefault();
    press.stopPropagation();
    stop(false);
  };
  window.addEventListener("pointermove", onMove, { passive: false });
  window.addEventListener("pointerup", onRelease);
  window.addEventListener("pointercancel", onCancel);
  window.addEventListener("keydown", onKey, true);
}

/** Suppresses the click that a browser sends after a drag. */
function suppressClick(event) {
  event.preventDefault();
  event.stopPropagation();
}

function scrollAtEdge(y) {
  if (y < 40) window.scrollBy(0, -12);
  else if (y > window.innerHeight - 40) window.scrollBy(0, 12);
}

/** The place under the pointer, as `drag` passes it to `end`; null if the pointer is far from the board. */
function findTarget(board, x, y, fact) {
  const area = board.getBoundingClientRect();
  if (x < area.left - 60 || x > area.right + 60 || y < area.top - 60 || y > area.bottom + 60) return null;
  const rows = [...board.querySelectorAll("[data-row]")];
  for (const [group, row] of rows.entries()) {
    const box = row.getBoundingClientRect();
    const edge = fact === undefined ? box.height / 2 : ROW_EDGE_PX;
    if (y < box.top + edge) return { group, alone: true };
    if (fact !== undefined && y <= box.bottom - ROW_EDGE_PX) return { group, alone: false, position: position(row, x, y, fact) };
  }
  return { group: rows.length, alone: true };
}

/** The number of the row's other chips before the pointer. */
function position(row, x, y, fact) {
  const chips = [...row.querySelectorAll(".chip")].filter((chip) => chip.dataset.facts !== String(fact));
  return chips.filter((chip) => {
    const box = chip.getBoundingClientRect();
    return box.bottom < y || (box.top <= y && box.x + box.width / 2 < x);
  }).length;
}

function showMarker(marker, board, target) {
  const rows = [...board.querySelectorAll("[data-row]")];
  for (const [group, row] of rows.entries()) row.classList.toggle("over", target !== null && !target.alone && target.group === group);
  marker.hidden = !target?.alone;
  if (marker.hidden) return;
  const area = board.getBoundingClientRect();
  const row = rows[target.group];
  const y = row ? row.getBoundingClientRect().top - 4 : rows.at(-1).getBoundingClientRect().bottom + 2;
  Object.assign(marker.style, { left: `${area.left}px`, top: `${y}px`, width: `${area.width}px` });
}
