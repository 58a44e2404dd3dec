"""See script/test-dash. Speaks WebDriver over HTTP with the standard library alone."""
import base64
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from dash_runs import Run

PAINT_MS, NEW_STEP_MS, GROWTH = 500, 1000, 0.05
failures = []


def check(holds, what):
    print(f"test-dash: {'ok    ' if holds else 'FAILED'} {what}", flush=True)
    if not holds:
        failures.append(what)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Dash:
    def __init__(self, runs, port, config):
        self.runs, self.port, self.config, self.process = runs, port, config, None
        self.start()

    def start(self):
        environment = {**os.environ, "XDG_CONFIG_HOME": str(self.config)}
        self.process = subprocess.Popen([os.environ["HYPERION_PROGRAM"], "dash", "--runs", str(self.runs), "--port", str(self.port)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        line = self.process.stdout.readline()
        self.url = re.fullmatch(r"dash: (http://127\.0\.0\.1:\d+/\?token=\S+)\n", line).group(1)
        self.token = self.url.split("token=")[1]

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)

    def ask(self, path, token=None, host=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers={**({"Authorization": f"Bearer {token}"} if token else {}), **({"Host": host} if host else {})})
        try:
            return urllib.request.urlopen(request, timeout=60).status
        except urllib.error.HTTPError as error:
            return error.code


class Browser:
    def __init__(self, width=1360, height=1000, phone=None, arguments=()):
        self.port, self.profile = free_port(), tempfile.mkdtemp(prefix="test-dash-")
        self.driver = subprocess.Popen(["chromedriver", f"--port={self.port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/status")
                break
            except OSError:
                time.sleep(0.1)
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        options = {"args": ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--enable-precise-memory-info", "--js-flags=--expose-gc", "--hide-scrollbars", f"--user-data-dir={self.profile}", f"--window-size={width},{height}", *sandbox, *arguments]}
        if phone:
            options["mobileEmulation"] = {"deviceMetrics": {"width": phone[0], "height": phone[1], "pixelRatio": 2.0, "touch": True}}
        self.path = ""
        session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
        self.path = f"/session/{session['sessionId']}"

    def call(self, method, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{self.path}{path}", method=method, data=None if body is None else json.dumps(body).encode(), headers={"Content-Type": "application/json"})
        try:
            return json.load(urllib.request.urlopen(request, timeout=300))["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()[:1000]) from error

    def go(self, url):
        self.call("POST", "/url", {"url": url})

    def js(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script, seconds=120):
        """What the script gives once it is true."""
        end = time.time() + seconds
        while time.time() < end:
            value = self.js(script)
            if value:
                return value
            time.sleep(0.05)
        return None

    def tabs(self, count):
        while len(handles := self.call("GET", "/window/handles")) < count:
            self.call("POST", "/window/new", {"type": "tab"})
        return handles

    def to(self, tab):
        self.call("POST", "/window", {"handle": tab})

    def requested(self):
        """Every address that was asked for since the last call, by any tab's page."""
        for entry in self.call("POST", "/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                yield message["params"]["request"]["url"]

    def shot(self, path):
        path.write_bytes(base64.b64decode(self.call("GET", "/screenshot")))

    def resident_mib(self):
        """Of all its processes, memory that they share counted once."""
        total = 0
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if self.profile in (process / "cmdline").read_text():
                    total += int(re.search(r"^Pss:\s+(\d+)", (process / "smaps_rollup").read_text(), re.M).group(1))
            except (OSError, AttributeError):
                pass
        return total / 1024

    def quit(self):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()
            shutil.rmtree(self.profile, ignore_errors=True)


PAINTED = "return document.documentElement.dataset.painted && !document.querySelector('[data-key=reading]') && performance.getEntriesByName('curves').length ? Number(document.documentElement.dataset.painted) : 0"
SHOWN_STEP = "((dt) => dt ? dt.nextElementSibling.firstChild.textContent.replaceAll(',', '') : '')([...document.querySelectorAll('.card dt')].find((one) => one.textContent === 'step'))"


def resident_mib(pid):
    return int(re.search(r"^VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M).group(1)) / 1024


def painted_in(browser, url, times):
    """Milliseconds from the question for 100,000 steps to what the screen shows, the page loaded anew each time."""
    found = []
    for _ in range(times):
        browser.go("about:blank")
        browser.go(url)
        if not browser.wait(PAINTED, 300):
            return []
        found.append(browser.js("return performance.getEntriesByName('curves')[0].duration"))
    return found


def shows(browser, run, seconds=60):
    if browser.wait(f"return {SHOWN_STEP} === '{run.steps}'", seconds):
        return True
    print(f"test-dash: step {run.steps} was written, and {browser.js(f'return {SHOWN_STEP}')!r} is shown")
    return False


def seen_after(browser, run, times):
    """Milliseconds from the end of a step's line to the page that shows the step."""
    found = []
    browser.js("window.shownStep = () => %s" % SHOWN_STEP)
    for _ in range(times):
        before = time.time()
        run.grow(1)
        script = "const [step, done] = arguments; const look = () => (window.shownStep() === step ? done(performance.timeOrigin + performance.now()) : setTimeout(look, 5)); look();"
        at = browser.call("POST", "/execute/async", {"script": script, "args": [str(run.steps)]})
        found.append(at - before * 1000)
        time.sleep(0.3)
    return found


def test_page(browser, dash, big, short):
    home = f"http://127.0.0.1:{dash.port}/"
    browser.go(dash.url)
    check(browser.js("return location.href.split('#')[0]") == home, "the token leaves the address")
    browser.go(home + "#" + big.folder.name)
    browser.js("location.reload()")
    count = browser.wait(PAINTED, 600)
    check(count and count >= 20, f"{count} curves of {big.steps:,} steps are painted")
    browser.js("window.scrollTo(0, 0)")
    times = painted_in(browser, home + "#" + big.folder.name, 2 if short else 7)
    busy = os.getloadavg()[0]
    print(f"test-dash: from the question to the painted curves: {', '.join(f'{t:.0f}' for t in times)} ms (load {busy:.1f} on {os.cpu_count()} cores)")
    if not short:
        check(times and min(times) <= PAINT_MS, f"painted within {PAINT_MS} ms: {min(times):.0f} at best, {sorted(times)[len(times) // 2]:.0f} in the middle")
    times = seen_after(browser, big, 2 if short else 10)
    print(f"test-dash: a new step is shown after: {', '.join(f'{t:.0f}' for t in times)} ms")
    if not short:
        check(max(times) <= NEW_STEP_MS, f"a new step is visible within {NEW_STEP_MS} ms")
    browser.js("location.reload()")
    check(shows(browser, big), "a reload shows the same step")
    check(dash.stop() == 130, "Ctrl-C ends the server with 130")
    check(browser.wait("return document.getElementById('link').className === 'lost'"), "the page says that the server is gone")
    big.grow(3)
    dash.start()
    check(browser.wait("return document.getElementById('link').className === 'live'") and shows(browser, big), "after a restart the page goes on by itself, with the steps of meanwhile")
    elsewhere = sorted({url for url in browser.requested() if not url.startswith((home, "data:", "about:", "chrome:", "blob:"))})
    check(not elsewhere, f"no request leaves the host {elsewhere}")
    asked = browser.js("return performance.getEntriesByType('resource').map((one) => one.name)")
    check(asked and all(url.startswith(home) for url in asked), f"the page's own {len(asked)} entries are all of this server")
    browser.js("const ran = document.createElement('script'); ran.textContent = 'window.ran = true'; document.body.append(ran); fetch('http://localhost:9/').catch(() => {})")
    check(not browser.js("return window.ran"), "a script in the page's text does not run")
    time.sleep(0.5)
    faults = [one["message"] for one in browser.call("POST", "/se/log", {"type": "browser"}) if "ERR_CONNECTION" not in one["message"] and "ERR_INCOMPLETE" not in one["message"]]
    check(len(faults) >= 2 and all("Content Security Policy" in one for one in faults), "that script and a request to another server are refused by the policy")
    faults = [one for one in faults if "Content Security Policy" not in one]
    check(not faults, f"nothing else is complained of in the console {faults[:3]}")


def test_strangers(dash):
    paths = ["/", "/app.js", "/charts.js", "/style.css", "/events", "/metrics", "/api/runs", "/api/run/big", "/api/run/big/curves", "/files/run/big/report.html", "/nowhere"]
    check({dash.ask(path) for path in paths} == {403}, "no route without the token")
    check({dash.ask(path, token=dash.token, host="evil.example") for path in paths} == {403}, "no route under another name")
    check(dash.ask("/api/runs", token=dash.token) == 200, "with it there is one")


def soak(browser, dash, small, big, minutes):
    """8 tabs on two runs that grow; memory after the first sixth, and at the end."""
    home = f"http://127.0.0.1:{dash.port}/"
    tabs = browser.tabs(8)
    for number, tab in enumerate(tabs):
        browser.to(tab)
        browser.go(home + "#" + (small if number % 2 else big).folder.name)
        browser.wait(PAINTED, 300)
    begun, first, told = time.time(), None, 0
    while (now := time.time() - begun) < 60 * minutes:
        small.grow(2)
        if int(now) % 5 == 0:
            big.grow(1)
        time.sleep(1)
        if first is None and now >= 60 * minutes / 6:
            first = measured(browser, tabs, dash)
        if now > told + 300:
            told = now
            print(f"test-dash: {now / 60:.0f} min: {measured(browser, tabs, dash)}", flush=True)
    last = measured(browser, tabs, dash)
    print(f"test-dash: 8 tabs for {minutes} min, {small.steps:,} and {big.steps:,} steps: {first} after a sixth, {last} at the end (MiB)")
    for what in first:
        growth = last[what] / first[what] - 1
        check(growth < GROWTH, f"memory of {what} grows by less than {GROWTH:.0%}: {growth:+.1%}")
    for tab, run in zip(tabs, [big, small]):
        browser.to(tab)
        check(shows(browser, run), f"a tab shows the newest step of {run.folder.name}")


def measured(browser, tabs, dash):
    heap = 0
    for tab in tabs:
        browser.to(tab)
        heap += browser.js("if (window.gc) window.gc(); return performance.memory.usedJSHeapSize") / 2**20
    return {"server": round(resident_mib(dash.process.pid), 1), "pages' scripts": round(heap, 1), "browser": round(browser.resident_mib(), 1)}


def take_shots(dash, folder, runs):
    folder.mkdir(parents=True, exist_ok=True)
    for name, kind in {"wide": {}, "phone": {"phone": (390, 844)}, "dark": {"arguments": ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"]}}.items():
        browser = Browser(**kind)
        try:
            browser.go(dash.url)
            browser.go(f"http://127.0.0.1:{dash.port}/#" + "%0A".join(run.folder.name for run in runs))
            browser.js("location.reload()")
            browser.wait(PAINTED, 300)
            time.sleep(3)
            browser.shot(folder / f"{name}.png")
            browser.js("document.getElementById('ranks').scrollIntoView()")
            time.sleep(1)
            browser.shot(folder / f"{name}-ranks.png")
            sideways = browser.js("return document.documentElement.scrollWidth - window.innerWidth")
            check(sideways <= 0, f"{name}: the page does not scroll sideways")
        finally:
            browser.quit()


def main(words):
    short, shots = words[:1] == ["short"], words[:1] == ["shots"]
    with tempfile.TemporaryDirectory(prefix="test-dash-") as scratch:
        scratch = pathlib.Path(scratch)
        if shots:
            runs = [Run(scratch / "runs" / "gpt2-small", 6000, planned=8000), Run(scratch / "runs" / "gpt2-wide", 4000, planned=8000, seed=2)]
        else:
            big = Run(scratch / "runs" / "big", 2000 if short else 100_000, planned=200_000)
            small = Run(scratch / "runs" / "small", 200, planned=1_000_000, seed=2)
        dash = Dash(scratch / "runs", free_port(), scratch)
        try:
            if shots:
                take_shots(dash, pathlib.Path(words[1]), runs)
                return
            test_strangers(dash)
            browser = Browser()
            try:
                test_page(browser, dash, big, short)
                if not short:
                    soak(browser, dash, small, big, float(words[0]) if words else 60)
            finally:
                browser.quit()
        finally:
            dash.process.kill()
            dash.process.wait()


main(sys.argv[1:])
print(f"test-dash: {len(failures)} failed" if failures else "test-dash: all held")
sys.exit(1 if failures else 0)
