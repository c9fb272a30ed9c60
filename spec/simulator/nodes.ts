import { Node, type NodeServer } from './node.ts';
import { SeededRandom } from './random.ts';
import { SimulatedServer } from './server.ts';
import { Simulation, type SimulationOptions, type SimulationResult } from './simulation.ts';
import { ORDINARY, type Setting, settingOf } from './steps.ts';
import { tickOracle } from './ticks.ts';
import { SimulatedTime } from './time.ts';
import { type TokenClients, tokenClients } from './tokens.ts';
import { createWorld, type World } from './world.ts';

const STEPS = {
  ...ORDINARY,
  ...{ issue: 4, find: 10, revoke: 3 },
  ...{ kill: 1.5, stop: 0.5, standStill: 2, goOn: 3 },
  ...{ cut: 3, failServer: 0.7, repairServer: 4, loseMessages: 2, slowDown: 2, disorder: 1 },
};

type StepKind = keyof typeof STEPS;

/** Runs two to four nodes on one simulated server. */
export function simulateNodes(options: SimulationOptions): Promise<SimulationResult> {
  const time = new SimulatedTime();
  const random = new SeededRandom(`nodes ${options.seed}`);
  const setting = nodeSetting(random, options.seed);
  const server = new SimulatedServer(time, random.fork('server'), setting);
  return new NodesSimulation(createWorld(time, random, setting, options.note), server).run(options);
}

/** Without eviction of keys and rows, because the order of the commits of several nodes is unknown. */
export function nodeSetting(random: SeededRandom, seed: number): Setting {
  return { ...settingOf(random.fork('setting'), seed), maxKeys: 1000, rows: 0 };
}

export class NodesSimulation extends Simulation<StepKind, Node> {
  protected readonly weights = STEPS;
  readonly #server: NodeServer;
  readonly #ticks = tickOracle(this.world, this.processes);
  readonly #tokens: TokenClients;

  constructor(world: World, server: NodeServer) {
    super(world);
    this.#server = server;
    this.#tokens = tokenClients(world, server);
  }

  protected async close(): Promise<void> {
    for (const node of this.processes) node.kill();
    await this.#server.close();
  }

  protected async start(): Promise<void> {
    const count = this.world.random.fork('nodes').between(2, 4);
    for (let place = 0; place < count; place += 1) this.#startNode(place);
    await this.pass(2000);
  }

  protected async fault(kind: StepKind, random: SeededRandom): Promise<void> {
    const server = this.#server;
    server.random = random.fork('server');
    const place = random.below(this.processes.length);
    const node = this.processes[place] as Node;
    switch (kind) {
      case 'issue':
        return this.#tokens.issue(node, `token${this.step}`, random);
      case 'find':
        for (const id of this.#tokens.ids()) if (random.chance(0.4)) this.#tokens.find(node, id);
        break;
      case 'revoke':
        return this.#tokens.revoke(node, random);
      case 'stop':
        await this.#stop(node);
        return this.restart(place);
      case 'kill':
        return this.restart(place);
      case 'standStill':
        node.clock.standStill();
        node.isStill = true;
        break;
      case 'goOn':
        for (const each of this.processes) await this.#goOn(each);
        break;
      case 'cut':
        return server.cut(random.chance(0.5) ? place : undefined);
      case 'failServer':
        server.isUp = false;
        return server.cut();
      case 'repairServer':
        return server.repair();
      case 'loseMessages':
        server.lossRate = 0.3;
        break;
      case 'slowDown':
        server.latencyMs = random.pick([50, 300, 600, 4000]);
        break;
      case 'disorder':
        server.isDisordered = true;
    }
  }

  protected override watch(): void {
    this.#ticks.checkLeaders();
  }

  protected async repair(): Promise<void> {
    this.#server.repair();
    for (const node of this.processes) await this.#goOn(node);
  }

  protected audit(): void {
    const tables = this.#server.read();
    // The answer of a real server is old already.
    if (!(tables instanceof Promise)) this.history.audit(tables);
  }

  protected async isAtRest(): Promise<boolean> {
    return (await this.#server.unfinished()) === 0;
  }

  protected async finish(): Promise<void> {
    const { now } = this.world;
    const nodes = this.processes.filter(({ awakeSince }) => now - awakeSince > 5000);
    this.#ticks.checkRest(nodes);
    for (const node of nodes) for (const id of this.#tokens.ids()) this.#tokens.find(node, id, true);
    await this.pass(5000);
    const { counts, ...tables } = await this.#server.read();
    this.history.audit(tables);
    this.history.auditCounts(counts, tables.messages);
    this.history.auditRest(tables, this.clients.unanswered);
  }

  protected restart(place: number): void {
    const node = this.processes[place] as Node;
    node.kill();
    this.world.note(`    ${node.name} is dead`);
    this.#startNode(place);
  }

  async #goOn(node: Node): Promise<void> {
    if (!node.isStill) return;
    node.isStill = false;
    node.awakeSince = this.world.now;
    await node.clock.goOn();
  }

  #startNode(place: number): void {
    const node = new Node({ ...this.optionsOf(place), place, server: this.#server, ticks: this.#ticks });
    this.processes[place] = node;
    node.open().then(
      () => this.world.note(`    ${node.name} is open`),
      async (error: Error) => {
        this.world.note(`    ${node.name} cannot start: ${error.message}`);
        await node.clock.sleep(500);
        if (!node.isDead) this.restart(place);
      },
    );
  }

  async #stop(node: Node): Promise<void> {
    if (node.isStill) return;
    let isStopped = false;
    void node.stop().then(() => {
      isStopped = true;
    });
    for (let waits = 0; waits < 150 && !isStopped && !node.isDead; waits += 1) await this.pass(100);
  }
}
