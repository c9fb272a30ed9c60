import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Copy, DockerfileParser, type Instruction, type JSONInstruction } from 'dockerfile-ast';
import { projectFolder } from '../support/program.ts';

/** One instruction: its keyword, its flags (such as `--from=build`) and its arguments, parsed in the exec form. */
export interface Step {
  keyword: string;
  flags: Record<string, string>;
  arguments: string[];
  /** Whether the arguments are a JSON array, which runs without a shell. */
  exec: boolean;
  /** Everything after the keyword, verbatim. */
  text: string;
}

/** Instructions from one FROM to the next. */
export interface Stage {
  base: string;
  name: string | undefined;
  steps: Step[];
}

export const dockerfileText = readFileSync(join(projectFolder, 'Dockerfile'), 'utf8');

/** The stages of the project's Dockerfile. */
export function stages(): Stage[] {
  const result: Stage[] = [];
  for (const instruction of DockerfileParser.parse(dockerfileText).getInstructions()) {
    const step = readStep(instruction);
    const [base, , name] = step.arguments;
    if (step.keyword === 'FROM') result.push({ base: base as string, name, steps: [] });
    else result.at(-1)?.steps.push(step);
  }
  return result;
}

/** Returns the last instruction with a keyword. It overrides earlier ones. */
export function last({ steps }: Stage, keyword: string): Step {
  const step = steps.findLast((each) => each.keyword === keyword);
  if (step === undefined) throw new Error(`the stage has no ${keyword}`);
  return step;
}

/** Returns the environment that a stage's ENV instructions define. */
export function environment({ steps }: Stage): Record<string, string> {
  const assignments = steps.filter(({ keyword }) => keyword === 'ENV').flatMap((step) => step.arguments);
  return Object.fromEntries(assignments.map((each) => each.split(/=(.*)/s, 2) as [string, string]));
}

function readStep(instruction: Instruction): Step {
  const keyword = instruction.getKeyword();
  const flags = 'getFlags' in instruction ? (instruction as Copy).getFlags() : [];
  const strings = 'getJSONStrings' in instruction ? (instruction as JSONInstruction).getJSONStrings() : [];
  const exec = strings.length > 0;
  const plain = instruction.getArguments().map((each) => each.getValue());
  return {
    keyword,
    flags: Object.fromEntries(flags.map((flag) => [flag.getName(), flag.getValue() ?? ''])),
    arguments: exec ? strings.map((each) => each.getJSONValue()) : plain,
    exec,
    text: instruction.getRawArgumentsContent() ?? '',
  };
}
