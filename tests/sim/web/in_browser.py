#!/usr/bin/env python3
"""The page's program in a browser, by its own engine and workers: a command line a line on standard input, as JSON {argv, files,
folder}; its answer on standard output, as JSON {code, out, err, files, seconds} or {failed}.

usage: in_browser.py chromium|firefox PAGE-FOLDER
"""
import json
import pathlib
import sys

import browsers

LOOK_S = 15  # a call of a browser must end sooner than a search does


def main():
    name, page = sys.argv[1:]
    browser = browsers.start(name)
    try:
        browser.open((pathlib.Path(page).absolute() / "index.html").as_uri())
        browser.run("window.asked = new Engine(); 1")
        for line in sys.stdin:
            question = json.loads(line)
            words = json.dumps(question.pop("argv"))
            browser.run(f"""window.answer = asked.run({words}, {json.dumps(question)})
                .then(done => JSON.stringify(done), error => JSON.stringify({{failed: error.message}})); 1""")
            answer = None
            while answer is None:
                answer = browser.run(f"Promise.race([answer, new Promise(late => setTimeout(late, {LOOK_S * 1000}, null))])")
            print(answer, flush=True)
    finally:
        browser.close()


if __name__ == "__main__":
    main()
