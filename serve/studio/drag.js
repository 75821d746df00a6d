// Drags a chip or a group over the board by pointer events, into a row or between rows.

const DRAG_THRESHOLD_PX = 5; // smallest movement of a drag; less is a click
const ROW_EDGE_PX = 10; // distance from a row's edge that counts as between rows

/**
 * Handles a press on the element of `event`.
 *
 * @param fact the chip's fact; undefined: a group, which can only be dropped between rows.
 * @param callbacks `start()` is called when a drag begins, `end(target)` at its end; target: null if cancelled, else
 *   { group, alone (whether to insert a new group before it), position (in the group) }.
 */
export function drag(event, board, fact, { start, end }) {
  const source = event.currentTarget;
  const from = { x: event.clientX, y: event.clientY };
  const box = source.getBoundingClientRect();
  const marker = document.createElement("div");
  marker.className = "marker";
  let ghost = null;
  let target = null;

  const follow = (move) => {
    if (!ghost) {
      if (Math.hypot(move.clientX - from.x, move.clientY - from.y) < DRAG_THRESHOLD_PX) return;
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
    ghost.style.transform = `translate(${move.clientX - from.x + box.x}px, ${move.clientY - from.y + box.y}px)`;
    scroll(move.clientY);
    target = find(board, move.clientX, move.clientY, fact);
    show(marker, board, target);
  };
  const stop = (dropped) => {
    window.removeEventListener("pointermove", follow);
    window.removeEventListener("pointerup", up);
    window.removeEventListener("pointercancel", cancel);
    window.removeEventListener("keydown", escape, true);
    if (!ghost) return;
    ghost.remove();
    marker.remove();
    source.classList.remove("away");
    document.body.classList.remove("grabbing");
    for (const row of board.querySelectorAll(".over")) row.classList.remove("over");
    window.addEventListener("click", swallow, { capture: true, once: true });
    setTimeout(() => window.removeEventListener("click", swallow, true), 0);
    end(dropped ? target : null);
  };
  const up = () => stop(true);
  const cancel = () => stop(false);
  const escape = (key) => {
    if (key.key !== "Escape") return;
    key.preventDefault();
    key.stopPropagation();
    stop(false);
  };
  window.addEventListener("pointermove", follow, { passive: false });
  window.addEventListener("pointerup", up);
  window.addEventListener("pointercancel", cancel);
  window.addEventListener("keydown", escape, true);
}

/** Suppresses the click that a browser sends after a drag. */
function swallow(event) {
  event.preventDefault();
  event.stopPropagation();
}

function scroll(y) {
  if (y < 40) window.scrollBy(0, -12);
  else if (y > window.innerHeight - 40) window.scrollBy(0, 12);
}

function find(board, x, y, fact) {
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

function show(marker, board, target) {
  const rows = [...board.querySelectorAll("[data-row]")];
  for (const [group, row] of rows.entries()) row.classList.toggle("over", target !== null && !target.alone && target.group === group);
  marker.hidden = !target?.alone;
  if (marker.hidden) return;
  const area = board.getBoundingClientRect();
  const row = rows[target.group];
  const y = row ? row.getBoundingClientRect().top - 4 : rows.at(-1).getBoundingClientRect().bottom + 2;
  Object.assign(marker.style, { left: `${area.left}px`, top: `${y}px`, width: `${area.width}px` });
}
