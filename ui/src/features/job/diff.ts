export interface DiffLine {
  kind: "context" | "added" | "removed" | "hunk" | "note";
  text: string;
  before: number | null;
  after: number | null;
}

export interface DiffFile {
  path: string;
  added: number;
  removed: number;
  lines: DiffLine[];
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;

/** Takes the path out of a `+++ b/…` or `--- a/…` line; nothing for /dev/null. */
function pathIn(line: string): string | null {
  const name = line.slice(4).replace(/\t.*$/, "");
  const bare = name.startsWith('"') && name.endsWith('"') ? name.slice(1, -1) : name;
  return bare === "/dev/null" ? null : bare.replace(/^[ab]\//, "");
}

/** Reads a unified diff as git writes it, file by file; what it doesn't know stays visible as a note. */
export function parseDiff(diff: string): DiffFile[] {
  const files: DiffFile[] = [];
  let file: DiffFile | undefined;
  let before = 0;
  let after = 0;
  let leftBefore = 0;
  let leftAfter = 0;
  let inHunks = false;
  const open = (path: string) => {
    file = { path, added: 0, removed: 0, lines: [] };
    files.push(file);
  };
  for (const line of diff.split("\n")) {
    if (file !== undefined && (leftBefore > 0 || leftAfter > 0)) {
      const text = line.slice(1);
      if (line.startsWith("+")) {
        file.lines.push({ kind: "added", text, before: null, after: after++ });
        file.added++;
        leftAfter--;
        continue;
      }
      if (line.startsWith("-")) {
        file.lines.push({ kind: "removed", text, before: before++, after: null });
        file.removed++;
        leftBefore--;
        continue;
      }
      if (line.startsWith(" ") || line === "") {
        file.lines.push({ kind: "context", text, before: before++, after: after++ });
        leftBefore--;
        leftAfter--;
        continue;
      }
    }
    const hunk = HUNK.exec(line);
    if (line.startsWith("diff --git ")) {
      inHunks = false;
      open(/ b\/(.+)$/.exec(line)?.[1] ?? line.slice("diff --git ".length));
      leftBefore = 0;
      leftAfter = 0;
    } else if (hunk !== null && file !== undefined) {
      inHunks = true;
      before = Number(hunk[1]);
      leftBefore = Number(hunk[2] ?? 1);
      after = Number(hunk[3]);
      leftAfter = Number(hunk[4] ?? 1);
      file.lines.push({ kind: "hunk", text: line, before: null, after: null });
    } else if (line.startsWith("--- ") || line.startsWith("+++ ")) {
      const path = pathIn(line);
      // A diff without git's own headers begins a file here.
      if (file === undefined || (inHunks && line.startsWith("--- "))) {
        inHunks = false;
        open(path ?? "");
      }
      if (path !== null && file !== undefined) file.path = path;
    } else if (file !== undefined && line !== "" && !line.startsWith("index ")) {
      file.lines.push({ kind: "note", text: line, before: null, after: null });
    }
  }
  return files;
}
