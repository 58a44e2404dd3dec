// What stands beside the curves: figures, ranks, answers, log, files, machine. Texts of runs go in as text alone.

export const element = (tag, { className, text, title, ...rest } = {}, ...children) => {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  if (title) made.title = title;
  Object.assign(made, rest);
  made.append(...children);
  return made;
};
export const byId = (id) => document.getElementById(id);

const known = (value) => value !== null && value !== undefined;

export function number(value) {
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size >= 1e15 || size < 1e-4) return value.toExponential(2);
  const steps = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e4, 'k']];
  for (const [unit, letter] of steps) if (size >= unit) return `${+(value / (letter === 'k' ? 1e3 : unit)).toPrecision(4)}${letter}`;
  return `${+value.toPrecision(size < 1 ? 4 : 5)}`;
}

export function bytes(value) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; Math.abs(value) >= 1000 && unit < units.length - 1; ++unit) value /= 1024;
  return `${+value.toPrecision(3)} ${units[unit]}`;
}

export function duration(seconds) {
  if (seconds < 60) return `${+seconds.toPrecision(3)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, '0')}`;
  return `${+(minutes / 1440).toPrecision(3)} days`;
}

export const percent = (value) => `${+(100 * value).toPrecision(3)}%`;

const lastOf = (run, name) => {
  const curve = run.data && run.data.curves[name];
  return curve && curve.mean.length ? curve.mean[curve.mean.length - 1] : null;
};

// Of the newest points, so that the rest is told by how the run goes now.
function secondsLeft(run) {
  const { steps, seconds } = run.data || {};
  if (!steps || steps.length < 3 || !run.summary.steps) return null;
  const last = steps.length - 1, first = Math.max(0, last - 50);
  return (seconds[last] - seconds[first]) / (steps[last] - steps[first]) * (run.summary.steps - run.summary.step);
}

export function showCards(run) {
  const { summary } = run;
  const rows = [];
  const card = (name, value, note) => { if (known(value)) rows.push([name, value, note]); };
  const end = summary.failure || summary.ended;
  card('status', summary.status, end || '');
  card('step', summary.steps ? `${summary.step.toLocaleString('en')}` : `${summary.step}`, summary.steps ? `of ${summary.steps.toLocaleString('en')}` : '');
  card('loss', known(summary.loss) ? number(summary.loss) : null, '');
  const evaluations = run.data ? run.data.evaluations.filter((one) => 'validation/loss' in one.values) : [];
  if (evaluations.length) {
    const newest = evaluations[evaluations.length - 1];
    const best = Math.min(...evaluations.map((one) => one.values['validation/loss']));
    card('validation loss', number(newest.values['validation/loss']), `after step ${newest.step}; lowest ${number(best)}`);
  }
  const speed = lastOf(run, 'speed/tokens_per_s');
  card('tokens a second', known(speed) ? number(speed) : null, '');
  const mfu = lastOf(run, 'speed/mfu');
  card('MFU', known(mfu) ? percent(mfu) : null, '');
  const memory = lastOf(run, 'memory/peak');
  card('memory, peak', known(memory) ? bytes(memory) : null, '');
  const power = lastOf(run, 'gpu/power_w'), clock = lastOf(run, 'gpu/clock_mhz');
  card('GPU power', known(power) ? `${Math.round(power)} W` : null, known(clock) ? `at ${Math.round(clock)} MHz` : '');
  const left = summary.status === 'running' ? secondsLeft(run) : null;
  card('still to train', known(left) ? duration(Math.max(0, left)) : null, '');
  byId('cards').replaceChildren(...rows.map(([name, value, note]) => {
    const figure = element('dd', { text: value });
    if (name === 'step' && summary.steps) {
      const bar = element('progress', { max: summary.steps, value: summary.step });
      bar.setAttribute('aria-label', 'part of the steps');
      figure.append(bar);
    }
    if (note) figure.append(element('div', { className: 'note', text: note }));
    return element('div', { className: 'card' }, element('dt', { text: name }), figure);
  }));
}

const PHASES = [['data_wait_ms', 'waits for data'], ['forward_ms', 'forward'], ['backward_ms', 'backward'], ['optimizer_ms', 'optimizer'], ['comm_ms', 'waits for others']];

export function showRanks(table, state) {
  const section = byId('ranks');
  section.hidden = table.ranks.length === 0;
  if (section.hidden) return;
  const longest = Math.max(...table.ranks.map((one) => PHASES.reduce((sum, [key]) => sum + (one[key] || 0), 0)), 1e-9);
  const columns = [['rank', (one) => one.rank], ['step', (one) => one.step], ['ms a step', (one) => known(one.step_ms) && one.step_ms.toFixed(1)],
    ['memory, peak', (one) => known(one.memory_peak) && bytes(one.memory_peak)], ['GPU', (one) => known(one.gpu_power_w) && `${Math.round(one.gpu_power_w)} W`],
    ['MHz', (one) => known(one.gpu_clock_mhz) && Math.round(one.gpu_clock_mhz)], ['°C', (one) => known(one.gpu_celsius) && Math.round(one.gpu_celsius)],
    ['state', (one) => { const its = Array.isArray(state) && state[one.rank]; return its && bytes(its.weights + its.gradients + its.optimizer); }],
    ['held up by', (one) => one.held_up || one.gpu_slowed]].filter(([, of]) => table.ranks.some((one) => known(of(one)) && of(one) !== false && of(one) !== ''));
  const head = element('tr', {}, ...columns.map(([name]) => element('th', { className: 'number', text: name, scope: 'col' })), element('th', { text: 'where its step goes', scope: 'col' }));
  const rows = table.ranks.map((one) => {
    const bar = element('div', { className: 'bar' });
    bar.setAttribute('role', 'img');
    bar.setAttribute('aria-label', PHASES.filter(([key]) => one[key]).map(([key, name]) => `${name} ${one[key].toFixed(1)} ms`).join(', '));
    PHASES.forEach(([key, name], i) => {
      if (!one[key]) return;
      const part = element('span', { className: `phase-${i}`, title: `${name}: ${one[key].toFixed(2)} ms` });
      part.style.width = `${100 * one[key] / longest}%`;
      bar.append(part);
    });
    return element('tr', {}, ...columns.map(([, of]) => element('td', { className: 'number', text: of(one) || of(one) === 0 ? of(one) : '' })), element('td', {}, bar));
  });
  section.querySelector('.scroll').replaceChildren(element('table', {}, element('thead', {}, head), element('tbody', {}, ...rows)));
  const note = section.querySelector('.note');
  note.replaceChildren(`Means of the last ${Math.max(...table.ranks.map((one) => one.steps))} steps.`);
  PHASES.forEach(([, name], i) => note.append(element('span', { className: `key phase-${i}` }), name));
  if (table.left_out) note.append(`; ${table.left_out} ranks are left out`);
}

let shownAnswers = null;
export function showAnswers(answers) {
  const text = JSON.stringify(answers);
  if (text === shownAnswers) return;
  shownAnswers = text;
  const section = byId('answers'), pick = section.querySelector('select');
  const sets = answers.evaluations.map(({ step, samples }) => [`step ${step}`, samples.map((one) => ({ asked: one.prompt, told: one.text }))]);
  if (answers.final && answers.final.samples)
    sets.push([`the end (${percent(answers.final.right)} right)`, answers.final.samples.map((one) => ({ asked: one.question, told: one.answer, note: one.right === false ? `wrong: it is ${one.expected}` : one.right ? 'right' : '' }))]);
  if (answers.predictions && answers.predictions.pictures)
    sets.push([`step ${answers.predictions.step}, images`, answers.predictions.pictures.map((one) => ({ png: one.png, told: `${one.predicted} (${percent(one.share)})`, note: one.predicted === one.truth ? 'right' : `wrong: it is ${one.truth}` }))]);
  section.hidden = sets.length === 0;
  if (section.hidden) return;
  const chosen = pick.selectedIndex >= 0 && pick.selectedIndex < pick.options.length - 1 ? pick.selectedIndex : sets.length - 1;
  pick.replaceChildren(...sets.map(([name]) => element('option', { text: name })));
  pick.selectedIndex = chosen;
  const draw = () => section.querySelector('.samples').replaceChildren(...sets[pick.selectedIndex][1].map((one) => {
    const card = element('div', { className: 'sample' });
    if (one.png) card.append(element('img', { src: `data:image/png;base64,${one.png}`, alt: '' }));
    if (one.asked) card.append(element('p', { className: 'asked', text: one.asked }));
    card.append(element('p', { text: one.told }));
    if (one.note) card.append(element('p', { className: 'muted small', text: one.note }));
    return card;
  }));
  pick.onchange = draw;
  draw();
}

export function showLog(log, again) {
  const section = byId('log'), list = section.querySelector('ol'), pick = section.querySelector('select');
  section.hidden = log.ranks.length === 0;
  section.querySelector('.pick').hidden = log.ranks.length < 2;
  if (pick.options.length !== log.ranks.length) pick.replaceChildren(...log.ranks.map((rank) => element('option', { value: rank, text: `rank ${rank}` })));
  pick.onchange = again;
  const atEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 8;
  list.replaceChildren(...log.lines.slice(-200).map(({ time, level, message }) => {
    const line = element('li', {}, element('span', { className: 'when', text: `${time.slice(11, 19)} ` }));
    if (level !== 'info' && level !== '') line.append(element('span', { className: level === 'error' ? 'error' : level === 'warn' ? 'warn' : 'when', text: `${level} ` }));
    line.append(message);
    return line;
  }));
  if (atEnd) list.scrollTop = list.scrollHeight;
}

let shownPipeline = '';
export function showDetails(id, details) {
  const files = byId('files'), into = files.querySelector('div'), base = `/files/run/${encodeURIComponent(id)}`;
  const parts = [];
  if (details.report) parts.push(element('p', {}, element('a', { href: `${base}/report.html`, target: '_blank', rel: 'noopener', text: 'The report of this run' }), ' (made at validations and at its end)'));
  if (details.traces.length) {
    parts.push(element('p', { text: `${details.traces.length} ${details.traces.length === 1 ? 'trace' : 'traces'}; what is in them:` }),
      element('p', {}, element('code', { text: `hyperion trace analyze ${details.folder}/traces/* --html trace.html` })),
      element('p', { className: 'muted small', text: details.traces.slice(-8).map((one) => `${one.name} (${bytes(one.bytes)})`).join(', ') }));
  }
  if (details.pipeline) {
    if (shownPipeline !== id || !files.querySelector('img')) parts.push(element('img', { className: 'pipeline', src: `${base}/pipeline.svg`, alt: 'The schedule of its pipeline, as planned and as it ran' }));
    else parts.push(files.querySelector('img'));
    shownPipeline = id;
  }
  into.replaceChildren(...parts);
  files.hidden = parts.length === 0;
  const { record } = details;
  const facts = [['recipe', record.recipe], ['folder', details.folder], ['parameters', record.parameters ? record.parameters.toLocaleString('en') : ''], ['data', record.data], ['begun', record.created], ...record.environment];
  byId('machine').hidden = false;
  byId('machine').querySelector('dl').replaceChildren(...facts.filter(([, value]) => value).map(([name, value]) => element('div', {}, element('dt', { text: name }), element('dd', { text: value }))));
}
