import type { Translate } from "../../i18n";

/** Who printed a line, in words; a container keeps its own name. */
export function streamName(stream: string, t: Translate): string {
  return stream === "agent" || stream === "runner" || stream === "browser" ? t(`log.stream.${stream}`) : stream;
}
