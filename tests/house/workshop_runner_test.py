"""script/test-workshop must not pass where nothing was shown: made-up pages that it has to refuse, and one that it takes."""
import pathlib
import subprocess
import sys
import tempfile

RUNNER = pathlib.Path(__file__).resolve().parent.parent.parent / "script/test-workshop"
GOOD = '```sh\necho loss 4.5; echo loss 3.5\n```\n<!-- name: first -->\n<!-- check: out.numbers("loss") == [4.5, 3.5] -->\n'
REFUSED = {
    "a page without a check": "```sh\necho loss 4\n```\n",
    "a page without anything": "Read this.\n",
    "a check that is false": '```sh\necho loss 4\n```\n<!-- check: out.number("loss") < 4 -->\n',
    "a command that printed nothing": '```sh\ntrue\n```\n<!-- check: not out.says("error") -->\n',
    "a check before any command": '<!-- check: out.says("loss") -->\n```sh\necho loss\n```\n',
    "a check that names no output": "```sh\necho loss 4\n```\n<!-- check: 1 < 2 -->\n",
    "a name that is not there": GOOD + '<!-- check: second.says("loss") -->\n',
    "a number that is not there": '```sh\necho loss nan\n```\n<!-- check: out.number("loss") < 4 -->\n',
    "a check that is not a truth": '```sh\necho loss 4\n```\n<!-- check: out.number("loss") -->\n',
    "a word misspelt": GOOD + '<!-- chek: out.says("loss") -->\n',
    "a fence misspelt": GOOD + "```sh gpus\necho loss\n```\n",
    "a command that fails": GOOD + "```sh\nfalse\n```\n",
    "a command within a pipe that fails": GOOD + "```sh\nfalse | cat\n```\n",
    "a command that should fail": GOOD + "```sh exits=1\ntrue\n```\n",
    "a block without an end": GOOD + "```sh\necho loss\n",
    "a check across lines": GOOD + '<!-- check: out.says("nothing")\n and True -->\n',
    "a page whose checks all need a GPU": '```sh gpu\necho loss 4\n```\n<!-- check: out.says("loss") -->\n',
}
TAKEN = {
    "a good page": GOOD,
    "names, and commands that should fail": GOOD + '```sh exits=3\necho later 2; exit 3\n```\n<!-- check: first.number("loss") > out.number("later") -->\n',
    "what needs a GPU beside what needs none": GOOD + '```sh gpu\nfalse\n```\n<!-- check: out.says("loss") -->\n',
    "other blocks": GOOD + "```text\nfalse\n```\n```\nfalse\n```\n",
}


def run(text):
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder, "page.md")
        page.write_text(text)
        return subprocess.run([RUNNER, "--program", "/bin/true", page], capture_output=True, text=True)


wrong = 0
for wanted, pages in ((1, REFUSED), (0, TAKEN)):
    for what, text in pages.items():
        done = run(text)
        if done.returncode != wanted or (wanted == 1 and "FAIL" not in done.stdout) or ("gpu" in text and wanted == 0 and "skip" not in done.stdout):
            wrong += 1
            print(f"{what}: exit code {done.returncode}, not {wanted}\n{done.stdout}{done.stderr}")
print(f"{len(REFUSED) + len(TAKEN)} pages, {wrong} wrong")
sys.exit(1 if wrong else 0)
