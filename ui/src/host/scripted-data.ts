import type { JobDetail, JobOutcome, JobView, LogLine } from "./generated/contract";

const ago = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString();

function ended(
  id: string,
  caseId: string,
  outcome: JobOutcome,
  endedAgo: number,
  seconds: number,
  tokens: number | null,
): JobView {
  return {
    id,
    caseId,
    harness: tokens === null ? "shell@1" : "claude-code@2.1",
    workspace: endedAgo > 3000 ? "acme" : "local",
    startedAt: ago(endedAgo + seconds),
    endedAt: ago(endedAgo),
    outcome,
    runner: "workbench",
    tokens,
    costUsd: tokens === null ? null : tokens * 0.0000042,
  };
}

export const SAMPLE_JOBS: JobView[] = [
  {
    id: "j-17",
    caseId: "fix-parser-off-by-one",
    harness: "claude-code@2.1",
    workspace: "local",
    startedAt: ago(130),
    endedAt: null,
    outcome: null,
    runner: "workbench",
    tokens: 18_402,
    costUsd: 0.0773,
  },
  ended("j-16", "rename-public-api", "passed", 190, 74, 22_118),
  ended("j-15", "hello-runner", "passed", 400, 2, null),
  ended("j-14", "flaky-socket-test", "failed", 760, 148, 41_090),
  ended("j-13", "migrate-config-v2", "timed-out", 1500, 600, 88_730),
  ended("j-12", "pull-image-retry", "infra", 2400, 12, null),
  ended("j-11", "explain-stack-trace", "unmeasured", 3300, 31, 9204),
  ended("j-10", "sort-imports", "passed", 4100, 19, 5120),
  ended("j-9", "write-changelog", "handed-back", 5200, 4, null),
  ended("j-8", "add-cli-flag", "cancelled", 6100, 40, 12_009),
  ended("j-7", "fix-typo-in-docs", "passed", 7300, 11, 3011),
];

const DIFF = `diff --git a/src/parser.rs b/src/parser.rs
index 2f1d4ab..9c03e77 100644
--- a/src/parser.rs
+++ b/src/parser.rs
@@ -41,8 +41,9 @@ impl<'a> Parser<'a> {
     /// Returns the text up to the next separator.
     fn field(&mut self) -> &'a str {
         let start = self.at;
-        while self.at <= self.text.len() && !self.is_separator() {
+        while self.at < self.text.len() && !self.is_separator() {
             self.at += 1;
         }
+        debug_assert!(self.at <= self.text.len());
         &self.text[start..self.at]
     }
diff --git a/tests/fields.rs b/tests/fields.rs
new file mode 100644
index 0000000..51c6f0a
--- /dev/null
+++ b/tests/fields.rs
@@ -0,0 +1,7 @@
+use parser::Parser;
+
+#[test]
+fn the_last_field_needs_no_separator() {
+    let fields: Vec<_> = Parser::new("a,b,c").collect();
+    assert_eq!(fields, ["a", "b", "c"]);
+}
`;

function detailOf(job: JobView): JobDetail {
  const passed = job.outcome === "passed";
  return {
    job,
    failure:
      job.outcome === "infra"
        ? {
            code: "IMAGE_PULL",
            message: "the image registry refused the pull",
            fix: "sign in to the registry, then run the case again",
          }
        : null,
    scores:
      job.outcome === "infra"
        ? []
        : [
            {
              grader: "tests-pass",
              metric: "tests_pass",
              status: "measured",
              value: passed ? 1 : 0,
              pass: passed,
              label: null,
              reason: passed ? "cargo test ended with 0" : "2 of 31 tests failed",
            },
            {
              grader: "diff-size",
              metric: "changed_lines",
              status: "measured",
              value: 10,
              pass: null,
              label: null,
              reason: null,
            },
            {
              grader: "judge",
              metric: "quality",
              status: "unmeasured",
              value: null,
              pass: null,
              label: null,
              reason: "no key for the judge model on this machine",
            },
          ],
    changes: { files: ["src/parser.rs", "tests/fields.rs"], diff: DIFF, truncated: false },
    trace: {
      events: 46,
      llmCalls: 9,
      toolCalls: 21,
      errors: passed ? 0 : 1,
      inputTokens: 19_702,
      outputTokens: 2416,
      costUsd: job.costUsd,
      steps: [
        { at: 180, durationMs: 2410, kind: "llm", name: "claude-sonnet", text: "Reads the failing test first" },
        { at: 2610, durationMs: 35, kind: "tool", name: "Read", text: "src/parser.rs" },
        { at: 2690, durationMs: 4120, kind: "llm", name: "claude-sonnet", text: "The loop runs one past the end" },
        { at: 6830, durationMs: 22, kind: "tool", name: "Edit", text: "src/parser.rs" },
        { at: 6900, durationMs: 8400, kind: "tool", name: "Bash", text: "cargo test --quiet" },
        { at: 15_400, durationMs: null, kind: "message", name: "assistant", text: "All 31 tests pass" },
      ],
      leftOut: 40,
    },
    raw: JSON.stringify(
      { caseId: job.caseId, harness: job.harness, scores: [{ graderId: "tests-pass", value: passed ? 1 : 0 }] },
      null,
      2,
    ),
  };
}

export const SAMPLE_DETAIL: Record<string, JobDetail> = Object.fromEntries(
  SAMPLE_JOBS.filter((job) => job.endedAt !== null).map((job) => [job.id, detailOf(job)]),
);

const E = "\u001b";
const PATTERN: [string, string][] = [
  ["runner", "checkout of acme/parser at 4be91f2"],
  ["runner", "scratch folder ready, 412 files"],
  ["db", "database system is ready to accept connections"],
  ["agent", "I'll look at the failing test first."],
  ["agent", `${E}[1mRead${E}[0m tests/fields.rs`],
  ["agent", `${E}[1mRead${E}[0m src/parser.rs`],
  ["agent", `The loop runs one past the end of the text: ${E}[33m<=${E}[0m should be ${E}[33m<${E}[0m.`],
  ["agent", `${E}[1mEdit${E}[0m src/parser.rs ${E}[32m+2${E}[0m ${E}[31m-1${E}[0m`],
  ["agent", `${E}[1mBash${E}[0m cargo test --quiet`],
  ["agent", `   ${E}[32;1mCompiling${E}[0m parser v0.3.1`],
  ["agent", `    ${E}[32;1mFinished${E}[0m test profile in 3.42s`],
  ["agent", `test fields::the_last_field_needs_no_separator ... ${E}[32mok${E}[0m`],
  ["agent", `test fields::quoted_fields_keep_separators ... ${E}[32mok${E}[0m`],
  ["db", `${E}[33mWARNING${E}[0m:  there is no transaction in progress`],
  ["agent", `test stream::a_split_character_is_joined ... ${E}[31mFAILED${E}[0m`],
  ["agent", `${E}[33mwarning${E}[0m: unused variable: ${E}[36m\`rest\`${E}[0m`],
  ["agent", `test result: ${E}[31mFAILED${E}[0m. 30 passed; 1 failed; finished in 0.21s`],
  ["agent", "One more: the stream keeps half a character at the end of a read."],
];

export function sampleLog(job: JobView, count: number): LogLine[] {
  const start = Date.parse(job.startedAt);
  return Array.from({ length: count }, (_, seq) => {
    const [stream, text] = PATTERN[seq % PATTERN.length] ?? ["agent", ""];
    const at = new Date(start + seq * 450).toISOString();
    return { seq, at, stream, text: count > 1000 ? `${seq + 1} ${text}` : text };
  });
}
