// The server's events. A browser opens six connections to a server at most, over all tabs: one tab reads for all.

// on: { runs, run, gone, link('live' | 'lost') }
export function listen(on) {
  let last = '';
  const deliver = ({ name, data }) => { if (name in on) on[name](data); };
  const channel = 'BroadcastChannel' in window ? new BroadcastChannel('hyperion-dash') : null;
  const tell = (message) => { deliver(message); if (channel) channel.postMessage(message); };

  const read = () => {
    const source = new EventSource('/events');
    for (const name of ['runs', 'run', 'gone']) source.addEventListener(name, (event) => tell({ name, data: JSON.parse(event.data) }));
    source.onopen = () => tell({ name: 'link', data: last = 'live' });
    source.onerror = () => {
      tell({ name: 'link', data: last = 'lost' });
      if (source.readyState !== EventSource.CLOSED) return;  // it tries again by itself
      source.close();
      setTimeout(read, 2000);
    };
  };

  if (!channel || !navigator.locks) { read(); return; }
  // What came before this tab was there.
  const catchUp = () => fetch('/api/runs', { cache: 'no-store' }).then((reply) => reply.json()).then((data) => deliver({ name: 'runs', data })).catch(() => {});
  channel.onmessage = ({ data }) => {
    if (data.name === 'who' && last) channel.postMessage({ name: 'link', data: last });
    else deliver(data);
  };
  navigator.locks.request('hyperion-dash-events', () => new Promise(() => read()));
  channel.postMessage({ name: 'who' });
  catchUp();
}
