import { Node, type NodeServer } from './node.ts';
import { SeededRandom } from './random.ts';
import { SimulatedServer } from './server.ts';
import { Simulation, type SimulationOptions, type SimulationResult } from './simulation.ts';
import { ORDINARY, type Setting, settingOf } from './steps.ts';
import { TickOracle } from './ticks.ts';
import { SimulatedTime } from './time.ts';
import { TokenOracle } from './tokens.ts';
import { World } from './world.ts';

const TOKEN_MS = 120_000;

const STEPS = {
  ...ORDINARY,
  ...{ issue: 4, find: 10, revoke: 3 },
  ...{ kill: 1.5, stop: 0.5, standStill: 2, goOn: 3 },
  ...{ cut: 3, failServer: 0.7, repairServer: 4, loseMessages: 2, slowDown: 2, disorder: 1 },
};

type StepKind = keyof typeof STEPS;

/** Runs two to four nodes on one simulated server. */
export async function simulateNodes(options: SimulationOptions): Promise<SimulationResult> {
  const time = new SimulatedTime();
  const random = new SeededRandom(`nodes ${options.seed}`);
  const setting = nodeSetting(random, options.seed);
  const server = new SimulatedServer(time, random.fork('server'), setting);
  try {
    return await runNodes(new World(time, random, setting, options.note), server, options);
  } finally {
    server.close();
  }
}

/** Without eviction of keys and rows, because the order of the commits of several nodes is unknown. */
export function nodeSetting(random: SeededRandom, seed: number): Setting {
  return { ...settingOf(random.fork('setting'), seed), maxKeys: 1000, rows: 0 };
}

export async function runNodes(
  world: World,
  server: NodeServer,
  options: SimulationOptions,
): Promise<SimulationResult> {
  const simulation = new NodesSimulation(world, server);
  try {
    return await simulation.run(options);
  } finally {
    simulation.close();
  }
}

class NodesSimulation extends Simulation<StepKind, Node> {
  protected readonly weights = STEPS;
  readonly #server: NodeServer;
  readonly #ticks = new TickOracle(this.world);
  readonly #tokens = new TokenOracle(this.world);

  constructor(world: World, server: NodeServer) {
    super(world);
    this.#server = server;
  }

  close(): void {
    for (const node of this.processes) node.kill();
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
    const ids = this.#tokens.ids.slice(-10);
    switch (kind) {
      case 'issue':
        return this.#issue(node, random.below(2));
      case 'find':
        for (const id of ids) if (random.chance(0.4)) this.#find(node, id);
        break;
      case 'revoke':
        if (ids.length > 0) this.#revoke(node, random.pick(ids));
        break;
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
    this.#checkLeaders();
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
    this.#ticks.onRest(nodes.map(({ name }) => name));
    for (const node of nodes) for (const id of this.#tokens.ids.slice(-10)) this.#find(node, id, true);
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

  /** @param maker node that makes a tick now, which must be the only leader */
  #checkLeaders(maker?: Node): void {
    const leaders = this.processes.filter((node) => node === maker || (!node.isStill && node.feed?.isLeader));
    if (leaders.length > 1) this.#ticks.onLeaders(leaders.map(({ name }) => name));
  }

  async #goOn(node: Node): Promise<void> {
    if (!node.isStill) return;
    node.isStill = false;
    node.awakeSince = this.world.now;
    await node.clock.goOn();
  }

  #startNode(place: number): void {
    const onTick = (maker: Node) => this.#checkLeaders(maker);
    const node = new Node({ ...this.optionsOf(place), place, server: this.#server, ticks: this.#ticks, onTick });
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

  #issue({ tokens, clock, name, isStill }: Node, key: number): void {
    if (isStill || tokens === undefined) return;
    const server = this.#server;
    const id = `token${this.step}`;
    const expiresAt = clock.now() + TOKEN_MS;
    this.#ask(`${name} issues ${id}`, async () => {
      await tokens.put({ id, keyId: `key${key}`, expiresAt });
      // The oldest token of the key may have been evicted by now.
      if (await server.hasToken(id)) this.#tokens.onIssued(id, expiresAt);
      for (const known of this.#tokens.ids)
        if (!(await server.hasToken(known))) this.#tokens.onRevoking(known, this.world.now);
    });
  }

  #find({ tokens, clock, name, isStill, awakeSince }: Node, id: string, mustAnswer = false): void {
    if (isStill || tokens === undefined) return;
    const server = this.#server;
    this.#ask(
      `${name} looks up ${id}`,
      async () => {
        const isSure = await server.hasToken(id);
        const asked = clock.now();
        const isValid = await tokens.find(id);
        // A token that was evicted or deleted after its expiry counts as revoked.
        if (!(await server.hasToken(id))) this.#tokens.onRevoking(id, asked);
        if (isValid || isSure) this.#tokens.onFound(id, isValid, asked, clock.now(), awakeSince, name);
        return isValid;
      },
      mustAnswer,
    );
  }

  #revoke({ tokens, clock, name, isStill }: Node, id: string): void {
    if (isStill || tokens === undefined) return;
    this.#tokens.onRevoking(id, clock.now());
    this.#ask(`${name} revokes ${id}`, async () => {
      await tokens.revoke(id);
      this.#tokens.onRevoked(id, clock.now());
    });
  }

  #ask(what: string, run: () => Promise<unknown>, mustAnswer = false): void {
    run().then(
      (answer) => this.world.note(`    ${what}: ${answer ?? 'done'}`),
      (error: Error) => {
        this.world.note(`    ${what}: ${error.name}`);
        if (mustAnswer)
          this.world.broken('After the faults, each node answers for tokens.', `${what}: ${error.message}`);
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
