// The live page: keeps what it knows of the chosen runs, asks for what is new when the server says so, and paints.
import { Chart, colorOf, dashOf, forgetColors } from '/charts.js';
import { listen } from '/events.js';
import { byId, bytes, duration, element, number, percent, showAnswers, showCards, showDetails, showLog, showRanks } from '/panels.js';

const MOST_CHOSEN = 7;         // each with a colour of its own
const BETWEEN_ASKS = 200;      // milliseconds, for the curves of a run
const BETWEEN_PANELS = 2000;   // for ranks, log, files

const state = {
  runs: new Map(),  // by id: { summary, data, slot, asking, again }
  chosen: [], named: false, begun: false,
  along: 'steps', logarithmic: false, zoom: null, cursor: null,
};
const charts = new Map();

// ---- What is shown of a value
const TITLES = {
  'train/loss': 'Loss', 'train/accuracy': 'Accuracy', 'train/grad_norm': 'Gradient norm', 'train/lr': 'Learning rate', 'train/tokens': 'Tokens of a step',
  'train/samples': 'Samples so far', 'speed/tokens_per_s': 'Tokens a second', 'speed/tflops': 'TFLOP/s', 'speed/mfu': 'MFU', 'time/step_ms': 'Step, ms',
  'time/data_wait_ms': 'Waits for data, ms', 'time/forward_ms': 'Forward, ms', 'time/backward_ms': 'Backward, ms', 'time/optimizer_ms': 'Optimizer, ms',
  'time/stopped_ms': 'Not running, ms', 'comm/ms': 'Waits for others, ms', 'comm/total_ms': 'Communication, ms', 'comm/bytes': 'Sent, a step',
  'memory/allocated': 'Allocated', 'memory/reserved': 'Reserved', 'memory/peak': 'Peak', 'gpu/clock_mhz': 'Clock, MHz', 'gpu/power_w': 'Power, W',
  'gpu/celsius': 'Temperature, °C', 'gpu/busy_percent': 'Busy, %', 'gpu/energy_j': 'Energy a step, J',
};
const GROUPS = [['train', 'Training'], ['speed', 'Speed'], ['time', 'Where a step goes'], ['comm', 'Communication'], ['memory', 'Memory'], ['gpu', 'GPU'], ['expert', 'Experts']];
const groupOf = (name) => name.slice(0, name.indexOf('/'));
const plain = (name) => TITLES[name] || name.slice(name.indexOf('/') + 1).replaceAll('_', ' ');
function formatOf(name) {
  if (name.startsWith('memory/') || name === 'comm/bytes') return bytes;
  if (/mfu|accuracy|top_[15]|answers_right|expert\/(idle|dropped)/.test(name)) return percent;
  return number;
}
// A validation's loss lies over the training's.
const chartOf = (name, all) => {
  const inTraining = `train/${name.slice(name.indexOf('/') + 1)}`;
  return !GROUPS.some(([group]) => group === groupOf(name)) && all.has(inTraining) ? inTraining : name;
};

// ---- Runs
const chosenRuns = () => state.chosen.map((id) => state.runs.get(id)).filter(Boolean);
const primary = () => chosenRuns()[0];

async function ask(path) {
  const reply = await fetch(path, { credentials: 'same-origin', cache: 'no-store' });
  if (reply.status === 403) notice('denied', 'The server has another token now: open the address that `hyperion dash` printed.');
  if (!reply.ok) throw new Error(`${path}: ${reply.status}`);
  notice('denied', '');
  return reply.json();
}

function keep(summary) {
  const run = state.runs.get(summary.id) || { id: summary.id, data: null };
  const before = run.summary;
  run.summary = summary;
  state.runs.set(summary.id, run);
  if (!before || before.status !== summary.status) later('list', showList);
  return run;
}

function takeSummary(summary) {
  const run = keep(summary);
  begin();
  if (!state.chosen.includes(summary.id)) return;
  if (run === primary()) later('cards', () => showCards(run));
  refreshCurves(run);
}

function takeRuns({ runs, named, left_out }) {
  const there = new Set(runs.map((run) => run.id));
  for (const id of [...state.runs.keys()]) if (!there.has(id)) forget(id);
  state.named = named;
  for (const summary of runs) keep(summary);
  byId('left-out').hidden = !left_out;
  byId('left-out').textContent = left_out ? `${left_out} older ones are left out; name them: hyperion dash NAME` : '';
  begin();
  for (const run of chosenRuns()) takeSummary(run.summary);
  later('list', showList);
}

function forget(id) {
  state.runs.delete(id);
  state.chosen = state.chosen.filter((one) => one !== id);
  if (state.chosen.length === 0) state.begun = false;
  later('list', showList);
  later('paint', paint);
}

// As the address says, else all that were named, else the newest that runs, else the newest.
function begin() {
  const runs = [...state.runs.values()].map((run) => run.summary).sort((a, b) => (a.created < b.created ? 1 : -1));
  if (state.begun || runs.length === 0) return;
  state.begun = true;
  const wanted = decodeURIComponent(location.hash.slice(1)).split('\n').filter((id) => state.runs.has(id));
  const running = runs.filter((run) => run.status === 'running');
  choose(wanted.length ? wanted : state.named ? runs.map((run) => run.id).slice(0, MOST_CHOSEN) : [(running[0] || runs[0]).id]);
}

function choose(ids) {
  state.chosen = ids.slice(0, MOST_CHOSEN);
  const taken = new Set(chosenRuns().map((run) => run.slot).filter((slot) => slot !== undefined));
  for (const run of state.runs.values()) if (!state.chosen.includes(run.id)) { run.slot = undefined; run.data = null; }
  for (const run of chosenRuns()) if (run.slot === undefined) { let slot = 0; while (taken.has(slot)) ++slot; run.slot = slot; taken.add(slot); }
  history.replaceState(null, '', `#${encodeURIComponent(state.chosen.join('\n'))}`);
  state.zoom = null;
  later('list', showList);
  for (const run of chosenRuns()) refreshCurves(run);
  panels();
  later('paint', paint);
}

function showList() {
  const runs = [...state.runs.values()].sort((a, b) => (a.summary.created < b.summary.created ? 1 : -1));
  byId('empty').hidden = runs.length > 0;
  byId('tools').hidden = state.chosen.length === 0;
  const had = document.activeElement && document.activeElement.dataset.key;
  byId('runs').replaceChildren(...runs.map((run) => {
    const chosen = state.chosen.includes(run.id), { summary } = run;
    const box = element('input', { type: 'checkbox', checked: chosen, onchange: () => choose(chosen ? state.chosen.filter((id) => id !== run.id) : [...state.chosen, run.id]) });
    box.setAttribute('aria-label', `lay ${run.id} over the others`);
    box.disabled = !chosen && state.chosen.length >= MOST_CHOSEN;
    box.dataset.key = `box ${run.id}`;
    const standing = element('span', { className: `standing ${summary.status === 'running' || summary.status === 'complete' ? '' : 'failed'}`, text: summary.status });
    const name = element('button', { type: 'button', text: run.id, onclick: () => choose([run.id]) }, standing);
    name.dataset.key = `name ${run.id}`;
    return element('li', { className: chosen ? 'chosen' : '' }, box, swatch(chosen ? run.slot : null), name);
  }));
  if (had) { const again = [...byId('runs').querySelectorAll('[data-key]')].find((one) => one.dataset.key === had); if (again) again.focus(); }
  const first = primary();
  byId('title').textContent = first ? (state.chosen.length > 1 ? `${first.id} and ${state.chosen.length - 1} more` : first.id) : 'Runs';
  document.title = first ? `${first.id}: ${first.summary.status}` : 'Hyperion: runs';
}

function swatch(slot) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('class', 'swatch');
  svg.setAttribute('aria-hidden', 'true');
  if (slot === null || slot === undefined) return svg;
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'line');
  for (const [key, value] of Object.entries({ x1: 0, y1: 5, x2: 26, y2: 5, 'stroke-width': 3, stroke: colorOf(slot), 'stroke-dasharray': dashOf(slot).join(' ') })) line.setAttribute(key, value);
  svg.append(line);
  return svg;
}

// ---- Curves
const width = () => Math.max(300, Math.round(Math.min(600, window.innerWidth) * Math.min(window.devicePixelRatio || 1, 2)));

async function refreshCurves(run) {
  if (document.hidden) { run.again = true; return; }
  if (run.asking) { run.again = true; return; }
  const { data, summary } = run;
  const known = data && summary.metrics && data.generation === summary.metrics.generation;
  if (known && !data.stale && data.rows >= summary.metrics.rows && data.seen >= summary.metrics.evaluations && data.part >= 1) return;
  run.asking = true, run.again = false;
  const begun = performance.now();
  try {
    const whole = !known || data.stale || state.zoom !== null || data.steps.length > 3 * width();
    const zoom = state.zoom && state.along === 'steps' ? `&from=${Math.floor(state.zoom.from)}&to=${Math.ceil(state.zoom.to)}` : '';
    const query = whole ? `width=${width()}${zoom}` : `generation=${data.generation}&since=${data.rows}&evaluations=${data.seen}`;
    const reply = await ask(`/api/run/${encodeURIComponent(run.id)}/curves?${query}`);
    merge(run, reply, !whole);
    later('paint', () => paint(whole ? begun : 0));
  } catch (error) {
    run.again = false;
  }
  setTimeout(() => { run.asking = false; if (run.again) refreshCurves(run); }, BETWEEN_ASKS);
}

function merge(run, reply, goesOn) {
  const { data } = run;
  const continued = goesOn && data && reply.generation === data.generation && reply.begin === data.rows && Object.keys(reply.curves).every((name) => name in data.curves);
  if (goesOn && !continued) { run.data.stale = true; run.again = true; return; }
  if (!continued) {
    run.data = { ...reply, seen: reply.evaluations_seen };
    return;
  }
  data.steps.push(...reply.steps);
  data.seconds.push(...reply.seconds);
  for (const [name, curve] of Object.entries(data.curves)) {
    const more = reply.curves[name] || { mean: reply.steps.map(() => null) };
    curve.mean.push(...more.mean);
    if (curve.low) { curve.low.push(...(more.low || more.mean)); curve.high.push(...(more.high || more.mean)); }
  }
  data.evaluations.push(...reply.evaluations);
  Object.assign(data, { rows: reply.rows, end: reply.end, part: reply.part, seen: reply.evaluations_seen });
}

function linesOf(name, all) {
  return chosenRuns().filter((run) => run.data).map((run) => {
    const { data } = run, curve = data.curves[name] || { mean: [] };
    const points = [];
    for (const one of data.evaluations)
      for (const [key, y] of Object.entries(one.values)) if (chartOf(key, all) === name && !(key in data.curves)) points.push([one[state.along === 'steps' ? 'step' : 'seconds'], y]);
    return { label: run.id, color: colorOf(run.slot), dash: dashOf(run.slot), x: curve.mean.length ? data[state.along] : [], mean: curve.mean, low: curve.low, high: curve.high, points };
  }).filter((line) => line.mean.some((y) => y !== null) || line.points.length);
}

function wholeRange(runs) {
  let from = Infinity, to = -Infinity;
  for (const { data } of runs) {
    const x = data[state.along];
    if (x.length) from = Math.min(from, x[0]), to = Math.max(to, x[x.length - 1]);
  }
  return from <= to ? { from: state.along === 'seconds' ? 0 : from, to } : { from: 0, to: 1 };
}

function paint(begun = 0) {
  const runs = chosenRuns().filter((run) => run.data);
  const names = new Set();
  for (const { data } of runs) {
    for (const name of Object.keys(data.curves)) names.add(name);
    for (const one of data.evaluations) for (const name of Object.keys(one.values)) names.add(name);
  }
  const shown = new Set([...names].map((name) => chartOf(name, names)));
  layOut(shown);
  const whole = wholeRange(runs);
  const view = { ...(state.zoom || whole), logarithmic: state.logarithmic, formatX: state.along === 'steps' ? (x) => `${Math.round(x).toLocaleString('en')}` : duration };
  for (const chart of charts.values()) chart.measure();
  for (const [name, chart] of charts) chart.draw(linesOf(name, names), { ...view, logarithmic: view.logarithmic && !name.startsWith('memory/') }, state.cursor);
  for (const chart of charts.values()) chart.say();
  byId('whole').hidden = state.zoom === null;
  const first = primary();
  if (first) showCards(first), tellTroubles(first);
  if (begun) measure(begun);
}

// From the question to what the screen shows, for script/test-dash.
function measure(begun) {
  requestAnimationFrame(() => setTimeout(() => {
    performance.clearMeasures('curves');
    performance.measure('curves', { start: begun, end: performance.now() });
    document.documentElement.dataset.painted = String(charts.size);
  }));
}

function layOut(names) {
  const same = names.size === charts.size && [...names].every((name) => charts.has(name));
  if (same) return;
  for (const name of [...charts.keys()]) if (!names.has(name)) charts.delete(name);
  const on = { cursor: setCursor, zoom: setZoom, zoomBy, back: () => setZoom(null) };
  const order = Object.keys(TITLES);
  const place = (name) => (order.includes(name) ? order.indexOf(name) : order.length);
  const groups = [...GROUPS, ...[...new Set([...names].map(groupOf))].filter((group) => !GROUPS.some(([known]) => known === group)).map((group) => [group, group])];
  const blocks = [];
  for (const [group, heading] of groups) {
    const own = [...names].filter((name) => groupOf(name) === group).sort((a, b) => place(a) - place(b));
    if (own.length === 0) continue;
    for (const name of own) if (!charts.has(name)) charts.set(name, new Chart(name, plain(name), formatOf(name), name === 'train/loss', on));
    blocks.push(element('details', { className: 'group', open: true }, element('summary', { text: heading }), element('div', { className: 'plots' }, ...own.map((name) => charts.get(name).figure))));
    blocks[blocks.length - 1].addEventListener('toggle', () => later('paint', paint));
  }
  byId('curves').replaceChildren(...blocks);
}

function setCursor(x) {
  state.cursor = x;
  later('paint', paint);
}

function setZoom(from, to) {
  const before = state.zoom;
  state.zoom = from === null || !(to > from) ? null : { from, to };
  if (before === null && state.zoom === null) { setCursor(null); return; }
  for (const run of chosenRuns()) if (run.data) run.data.stale = true, refreshCurves(run);
  later('paint', paint);
}

function zoomBy(factor) {
  const whole = wholeRange(chosenRuns().filter((run) => run.data));
  const now = state.zoom || whole, middle = state.cursor === null ? now.to : state.cursor;
  const from = Math.max(whole.from, middle - (middle - now.from) * factor), to = Math.min(whole.to, middle + (now.to - middle) * factor);
  if (from <= whole.from && to >= whole.to) setZoom(null); else setZoom(from, to);
}

// ---- Notices
function notice(key, text, calm = false) {
  let box = byId('notices').querySelector(`[data-key="${key}"]`);
  if (!text) { if (box) box.remove(); return; }
  if (!box) { box = element('p', { className: calm ? 'notice calm' : 'notice' }); box.dataset.key = key; byId('notices').append(box); }
  if (box.textContent !== text) box.textContent = text;
}

function tellTroubles(run) {
  const metrics = run.summary.metrics || {};
  notice('nonfinite', metrics.nonfinite ? `The loss or the gradient norm of step ${metrics.nonfinite} was no number.` : '');
  notice('damaged', metrics.damaged ? `${metrics.damaged} lines of metrics.jsonl are no records and were left out.` : '');
  const part = run.data ? run.data.part : 0;
  notice('reading', run.data && part < 1 ? `Reading its metrics: ${Math.floor(100 * part)}%` : '', true);
}

// ---- Panels of the first run
let panelsAt = 0;
async function panels() {
  const run = primary();
  for (const id of ['ranks', 'answers', 'log', 'files', 'machine']) if (!run) byId(id).hidden = true;
  if (!run) { byId('cards').replaceChildren(); return; }
  panelsAt = performance.now();
  const base = `/api/run/${encodeURIComponent(run.id)}`;
  const rank = byId('log').querySelector('select').value || 0;
  try {
    const [details, ranks, answers, log] = await Promise.all([ask(base), ask(`${base}/ranks`), ask(`${base}/answers`), ask(`${base}/log?rank=${rank}`)]);
    if (run !== primary()) return;
    showDetails(run.id, details);
    showRanks(ranks, details.state);
    showAnswers(answers);
    showLog(log, panels);
  } catch (error) { /* the next round asks again */ }
}

let panelsTold = '';
setInterval(() => {
  const run = primary();
  if (document.hidden || !run) return;
  const { step, log, status, metrics } = run.summary;
  const now = `${run.id} ${step} ${log} ${status} ${metrics && metrics.evaluations}`;
  if (now === panelsTold || performance.now() - panelsAt < BETWEEN_PANELS) return;
  panelsTold = now;
  panels();
}, 500);

// ---- Once a frame at most
const waiting = new Map();
function later(what, work) {
  if (waiting.size === 0) requestAnimationFrame(() => { const works = [...waiting.values()]; waiting.clear(); for (const one of works) one(); });
  if (work === paint && waiting.has(what)) return;  // one that is measured stays
  waiting.set(what, work === paint ? () => paint() : work);
}

for (const radio of document.querySelectorAll('[name=along]')) radio.addEventListener('change', () => { state.along = radio.value; state.zoom = null; for (const run of chosenRuns()) if (run.data) run.data.stale = true, refreshCurves(run); later('paint', paint); });
byId('logarithmic').addEventListener('change', (event) => { state.logarithmic = event.target.checked; later('paint', paint); });
byId('whole').addEventListener('click', () => setZoom(null));
window.addEventListener('resize', () => later('paint', paint));
window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { forgetColors(); later('list', showList); later('paint', paint); });
document.addEventListener('visibilitychange', () => { if (!document.hidden) { for (const run of chosenRuns()) refreshCurves(run); later('list', showList); later('paint', paint); } });
if (window.innerWidth <= 860) byId('run-list').open = false;

listen({
  runs: takeRuns, run: takeSummary, gone: forget,
  link: (how) => { const link = byId('link'); link.className = how; link.textContent = how === 'live' ? 'live' : 'not connected: trying again'; },
});
