// Reads pasted records: JSON, JSON lines, CSV (a triple or a record per row), or lines of "subject | predicate | object".

const MAX_RECORDS = 500;
const SUBJECTS = ["name", "title"];
const NOT_PREDICATES = new Set(["id", "split", "category", "references", "facts", "plan", ...SUBJECTS]);
const isText = (key) => /^text\d*$/.test(key);

/**
 * Returns [{ id, triples, texts }]; throws an Error that explains the problem. A column is a predicate unless it has another
 * meaning (id, split, category, text, ...) and is not the name of a predicate that the model knows (`knownPredicates`).
 */
export function parseRecords(text, knownPredicates = []) {
  const trimmed = text.trim();
  if (!trimmed) throw new Error("There are no records: paste some first.");
  const records = /^[[{]/.test(trimmed) ? fromJson(trimmed, knownPredicates) : fromTable(trimmed, knownPredicates);
  const nonEmpty = records.filter((record) => record.triples.length);
  if (!nonEmpty.length) throw new Error("There are no facts: a fact has a predicate and a value.");
  return nonEmpty.slice(0, MAX_RECORDS).map((record, i) => ({ ...record, id: String(record.id ?? i + 1) }));
}

function fromJson(text, knownPredicates) {
  let data;
  try {
    data = JSON.parse(text);
  } catch (error) {
    const lines = text.split("\n").filter((line) => line.trim());
    if (lines.length < 2) throw new Error(`This is not JSON: ${error.message}`);
    data = lines.map((line, i) => {
      try {
        return JSON.parse(line);
      } catch (lineError) {
        throw new Error(`Line ${i + 1} is not JSON: ${lineError.message}`);
      }
    });
  }
  if (Array.isArray(data) && data.length && data.every((item) => isTripleList(item))) data = { triples: data };
  if (!Array.isArray(data) && Array.isArray(data?.records)) data = data.records;
  return (Array.isArray(data) ? data : [data]).map((item, i) => fromObject(item, i, knownPredicates));
}

const isTripleList = (item) => Array.isArray(item) && item.length === 3 && item.every((part) => typeof part === "string");

function fromObject(data, i, knownPredicates) {
  if (typeof data !== "object" || data === null || Array.isArray(data)) throw new Error(`Record ${i + 1} is not an object.`);
  if (!("triples" in data)) return fromRow(data, knownPredicates);
  if (!Array.isArray(data.triples)) throw new Error(`Record ${i + 1}: triples is not a list.`);
  const triples = data.triples.map((triple, j) => {
    const parts = Array.isArray(triple) ? triple : [triple?.subject ?? "", triple?.predicate, triple?.object];
    if (parts.length !== 3 || !parts.every((part) => typeof part === "string")) {
      throw new Error(`Record ${i + 1}, fact ${j + 1}: not a list of three strings [subject, predicate, object].`);
    }
    return parts.map((part) => part.trim());
  });
  const texts = (data.references ?? []).map((item) => (typeof item === "string" ? item : item?.text));
  return { id: data.id, triples, texts: [data.text, ...texts].filter((item) => typeof item === "string") };
}

/** A record from a row with a key for each predicate. */
function fromRow(row, knownPredicates) {
  const subject = String(row[SUBJECTS.find((key) => row[key])] ?? "").trim();
  const texts = [];
  const triples = [];
  for (const [key, value] of Object.entries(row)) {
    const content = value === null || value === undefined || typeof value === "object" ? "" : String(value).trim();
    if (!content || !key) continue;
    if (isText(key)) texts.push(content);
    else if (!NOT_PREDICATES.has(key) || knownPredicates.includes(key)) triples.push([subject, key, content]);
  }
  return { id: row.id, triples, texts };
}

function fromTable(text, knownPredicates) {
  const firstLine = text.split("\n", 1)[0];
  if (/^[^|\t,"]*\s\|\s[^|]+\s\|\s/.test(firstLine)) return fromLines(text);
  const separator = firstLine.includes("\t") ? "\t" : firstLine.includes(";") && !firstLine.includes(",") ? ";" : ",";
  const [header, ...rows] = parseCsv(text, separator);
  const columns = header.map((cell) => cell.trim());
  if (columns.length < 2 || !rows.length) {
    throw new Error("This is neither JSON nor a table: a CSV has a line of column names, then a row per record or triple.");
  }
  const objects = rows.map((row, i) => {
    if (row.length > columns.length) throw new Error(`Row ${i + 2} has ${row.length} cells; the first line names ${columns.length} columns.`);
    return Object.fromEntries(columns.map((column, j) => [column, row[j] ?? ""]));
  });
  if (!["predicate", "object"].every((name) => columns.includes(name))) return objects.map((row) => fromRow(row, knownPredicates));
  const records = new Map();
  for (const row of objects) {
    if (!row.predicate.trim() || !row.object.trim()) continue;
    const id = row.id ?? row.subject ?? "";
    if (!records.has(id)) records.set(id, { id: id || undefined, triples: [], texts: [] });
    records.get(id).triples.push([(row.subject ?? "").trim(), row.predicate.trim(), row.object.trim()]);
  }
  return [...records.values()];
}

function fromLines(text) {
  const triples = text.split("\n").filter((line) => line.trim()).map((line, i) => {
    const parts = line.split("|").map((part) => part.trim());
    if (parts.length !== 3 || !parts[1] || !parts[2]) throw new Error(`Line ${i + 1} is not "subject | predicate | object".`);
    return parts;
  });
  return [{ id: undefined, triples, texts: [] }];
}

/** The rows of a CSV (RFC 4180): quoted cells may contain separators and line ends; "" is a quotation mark. */
function parseCsv(text, separator) {
  const rows = [[]];
  let cell = "";
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const character = text[i];
    if (quoted) {
      if (character !== '"') cell += character;
      else if (text[i + 1] === '"') cell += text[++i];
      else quoted = false;
    } else if (character === '"' && !cell.trim()) {
      quoted = true;
      cell = "";
    } else if (character === separator || character === "\n") {
      rows.at(-1).push(cell.trim());
      cell = "";
      if (character === "\n") rows.push([]);
    } else {
      cell += character;
    }
  }
  if (quoted) throw new Error("A quotation mark is not closed.");
  rows.at(-1).push(cell.trim());
  return rows.filter((row) => row.some((value) => value));
}
