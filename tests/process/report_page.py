# SPDX-License-Identifier: MIT
"""The report in a browser: each of its parts is used, and its numbers are compared with what is counted here from the
snapshot."""
import importlib.util
import json
import math
import os
import re
import unittest

import browser
import made_snapshot
import program as shared
from program import InOneFolder, custash

EVIL = ["</script><script>document.title = 'run'</script>", "<img src=x onerror=\"document.title = 'run'\">", "'\"><b>&amp;", "javascript:alert(1)"]


def size_text(n):
    """As the page writes bytes."""
    value, unit = abs(n), 0
    while value >= 1024 and unit < 4:
        value, unit = value / 1024, unit + 1
    places = 0 if unit == 0 or value >= 100 or value % 1 == 0 else 1
    text = f"{math.floor(value * 10**places + .5) / 10**places:.{places}f}"  # a half goes up
    return ("−" if n < 0 else "") + text + " " + ["B", "KiB", "MiB", "GiB", "TiB"][unit]


def life_text(microseconds):
    """As the page writes a duration."""
    for unit, size in (("s", 1_000_000), ("ms", 1000), ("µs", 1)):
        if microseconds >= size:
            value = microseconds / size
            return f"{value:.{2 - (value >= 10) - (value >= 100)}f} {unit}"
    return "0 ns"


class Walk:
    """What is in use after each event, counted one by one."""

    def __init__(self, snapshot, begin=0, end=None):
        self.snapshot, events = snapshot, snapshot["history"]["events"]
        self.blocks, self.used, self.held, self.by_stack = [], 0, 0, {}
        self.peak, self.at_peak, self.calls, self.stream, self.stream_peak = 0, {}, {}, {}, {}
        alive = {}
        for i, event in enumerate(events[:end]):
            if i == begin:
                self.enter()
            _, action, _, _, address, size, stream, stack = event[:8]
            if action == "alloc":
                alive[address] = len(self.blocks)
                self.blocks.append({"begin": i, "end": None, "address": address, "bytes": size, "stack": stack, "stream": stream})
                self.calls[stack] = self.calls.get(stack, 0) + 1
                self.change(stack, stream, size)
            elif action == "free":
                self.blocks[alive.pop(address)].update(end=i, freed_by=event[8])
                self.change(stack, stream, -size)
            elif action == "segment_alloc":
                self.held += size

    def change(self, stack, stream, by):
        self.used += by
        self.by_stack[stack] = self.by_stack.get(stack, 0) + by
        self.stream[stream] = self.stream.get(stream, 0) + by
        self.stream_peak[stream] = max(self.stream_peak.get(stream, 0), self.stream[stream])
        self.look()

    def look(self):
        if self.used > self.peak:
            self.peak, self.at_peak = self.used, {key: value for key, value in self.by_stack.items() if value}

    def enter(self):
        """The stretch begins: what counts is what comes from here on."""
        self.peak, self.calls, self.stream_peak = -1, {}, dict(self.stream)
        self.look()


class Page(InOneFolder):
    @classmethod
    def setUpClass(cls):
        if browser.found() is None:
            raise unittest.SkipTest("no Chromium here")
        super().setUpClass()
        cls.snapshot = made_snapshot.training(1000)
        cls.whole = Walk(cls.snapshot)
        cls.page = cls.report(cls.write("app.json", cls.snapshot))
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    @classmethod
    def write(cls, name, snapshot):
        path = os.path.join(cls.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(snapshot, file)
        return path

    @classmethod
    def report(cls, *words):
        done = custash("report", *words, timeout=120)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout.strip()

    def setUp(self):
        self.browser.look(1280)
        self.browser.open(self.page)

    def tearDown(self):
        self.assertEqual(self.browser.complaints, [])

    def rows(self, label):
        """The cells of a table."""
        return self.browser.run(f"""[...document.querySelectorAll('table[aria-label="{label}"] tbody tr')]
            .map(row => [...row.cells].map(cell => (cell.querySelector("summary") || cell).textContent))""")

    def all_rows(self, label):
        while self.browser.run(f"""(() => {{ const more = [...document.querySelector('table[aria-label="{label}"]').closest("div").parentNode.querySelectorAll("button")]
                               .find(each => each.textContent.startsWith("show ")); more?.click(); return Boolean(more); }})()"""):
            pass
        return self.rows(label)

    def text(self, element):
        return self.browser.run(f"document.querySelector({json.dumps(element)}).textContent")

    def press(self, title):
        """Clicks the first button with these words."""
        self.browser.run(f"[...document.querySelectorAll('button')].find(each => each.textContent === {json.dumps(title)}).click()")

    def set(self, element, value):
        self.browser.run(f"""(() => {{ const node = document.querySelector({json.dumps(element)}); node.value = {json.dumps(value)};
            node.dispatchEvent(new Event("input", {{ bubbles: true }})); node.dispatchEvent(new Event("change", {{ bubbles: true }})); }})()""")

    def search(self, words):
        self.set("input[type=search]", words)
        self.browser.wait(f"view.words === {json.dumps(words)}")

    def select(self, label, value):
        self.browser.run(f"""(() => {{ const node = [...document.querySelectorAll("label")].find(each => each.textContent.startsWith({json.dumps(label)})).querySelector("select");
            node.value = {json.dumps(value)}; node.onchange(); }})()""")

    def sizes(self, of):
        return sorted(size_text(value) for value in of.values())

    def test_the_whole_run(self):
        tiles = self.text(".tiles")
        self.assertIn(f"{size_text(self.whole.used)}in use at the snapshot, of 80 GiB", tiles)
        self.assertIn(f"{size_text(self.whole.peak)}in use at its peak", tiles)  # as on the chart below
        self.assertIn("UTC; custash 0.2.0", self.text("#program"))
        self.assertEqual(sorted(row[2] for row in self.all_rows("call sites at the peak")), self.sizes(self.whole.at_peak))
        self.assertEqual(sorted(row[1] for row in self.all_rows("all call sites")), sorted(str(n) for n in self.whole.calls.values()))
        self.assertIn("peak " + size_text(self.whole.peak), self.text("svg.chart"))
        # Counted from the events it is what the recording has counted, call site by call site.
        own = {site["stack"]: [site["allocations"], site["bytes"], site["peak_bytes"], site["at_peak_bytes"], site["allocated_bytes"]]
               for site in self.snapshot["history"]["sites"]}
        counted = self.browser.run("past().sum(0, past().length).rows.map(r => [r.stack, r.calls, r.now, r.own, r.atPeak, r.allocated])")
        self.assertEqual({row[0]: row[1:] for row in counted}, own)

    def test_a_brush_makes_all_tables_again(self):
        self.browser.drag("svg.chart", .3, .6)
        begin, end = self.browser.run("[view.from, view.to]")
        self.assertGreater(begin, 100)
        self.assertLess(end, 900)
        self.assertIn(f"events {begin + 1} to {end}", self.text("#stretch"))
        part = Walk(self.snapshot, begin, end)
        self.assertIn("peak " + size_text(part.peak), self.text("#stretch"))
        self.assertEqual(sorted(row[2] for row in self.all_rows("call sites at the peak")), self.sizes(part.at_peak))
        calls = {row[0]: row[1] for row in self.all_rows("all call sites") if row[1] != "0"}
        self.assertEqual(sorted(calls.values()), sorted(str(n) for n in part.calls.values()))
        libraries = {}
        for site in self.snapshot["history"]["sites"]:
            libraries[site["caller"]] = libraries.get(site["caller"], 0) + part.calls.get(site["stack"], 0)
        self.assertEqual({row[0]: int(row[1]) for row in self.rows("by library")}, libraries)
        kept = [block for block in part.blocks if block["begin"] >= begin and block["end"] is None]
        self.assertEqual(sum(int(row[2]) for row in self.all_rows("still allocated")), len(kept))
        lives = [block for block in self.whole.blocks if block["begin"] < end and (block["end"] is None or block["end"] >= begin)]
        self.assertEqual(len(self.all_rows("blocks")), len(lives))
        freed = sum(1 for block in self.whole.blocks if block["end"] is not None and begin <= block["end"] < end)
        self.assertEqual(sum(int(row[1].replace(",", "")) for row in self.rows("lifetimes")), freed)
        self.press("the whole run")
        self.assertEqual(self.text("#stretch"), "All 1,000 events.")

    def test_a_brush_by_keys(self):
        self.browser.run("document.querySelectorAll('input[type=range]')[0].focus()")
        for _ in range(3):
            self.browser.key("ArrowRight")
        self.assertEqual(self.browser.run("[view.from, document.activeElement.type]"), [3, "range"])

    def test_flame_graph(self):
        places = {"atPeak": self.whole.at_peak, "now": {k: v for k, v in self.whole.by_stack.items() if v}}
        places["allocated"] = {site["stack"]: site["allocated_bytes"] for site in self.snapshot["history"]["sites"]}

        def below(function, of):
            names = [[self.snapshot["frames"][i]["name"] for i in stack] for stack in self.snapshot["stacks"]]
            return sum(value for stack, value in of.items() if function in names[stack])

        for kind, of in places.items():
            self.select("memory", kind)
            whole = sum(of.values())
            for function in ("Model::forward", "Model::Model", "main"):
                if (share := below(function, of) / whole) > .01:
                    found = self.browser.run(f"""[...document.querySelectorAll(".flame button")].filter(each => each.textContent.startsWith("{function} "))
                        .map(each => [each.getAttribute("aria-label"), parseFloat(each.style.width)])""")
                    self.assertEqual(len(found), 1, (kind, function))
                    self.assertTrue(found[0][0].endswith(f": {size_text(below(function, of))}, {share * 100:.1f} %"), found)
                    self.assertAlmostEqual(found[0][1], share * 100, places=3)
        # With keys: down to main, widen, back.
        self.browser.run("document.querySelector('.flame button[tabindex=\"0\"]').focus()")
        for key, name in (("ArrowDown", "main"), ("ArrowDown", "train"), ("Enter", "train"), ("ArrowUp", "main"), ("Escape", "all")):
            self.browser.key(key)
            self.assertTrue(self.browser.run("document.activeElement.textContent").startswith(name), key)

    def test_a_block(self):
        block = max((each for each in self.whole.blocks if each["end"]), key=lambda each: each["bytes"])
        self.search(hex(block["address"]))
        rows = self.all_rows("blocks")
        self.assertEqual(len(rows), sum(1 for each in self.whole.blocks if each["address"] == block["address"]))
        at = next(i for i, row in enumerate(rows) if row[1] == size_text(block["bytes"]))
        self.browser.run(f"document.querySelectorAll('table[aria-label=blocks] tbody tr')[{at}].querySelector('button').click()")
        said = self.text("#block")
        events, frames = self.snapshot["history"]["events"], self.snapshot["frames"]
        for event in (block["begin"], block["end"]):
            self.assertIn(f"{life_text(events[event][0] - events[0][0])} after the first event (event {event + 1} of 1,000)", said)
        stacks = ["\n".join(f"{frames[i]['name']} ({frames[i]['file']}:{frames[i]['line']})" for i in self.snapshot["stacks"][stack])
                  for stack in (block["stack"], block["freed_by"])]
        self.assertEqual(self.browser.run("[...document.querySelectorAll('#block pre')].map(each => each.textContent)"), stacks)
        life = life_text(events[block["end"]][0] - events[block["begin"]][0])
        self.assertEqual(rows[at][2], life)
        self.assertIn("life" + life, said)
        self.assertIn(hex(block["address"]), said)
        self.assertIn({0: "none named", 1: "legacy default", 2: "per-thread default"}.get(block["stream"], hex(block["stream"])), said)
        self.press("state when it was allocated")
        self.assertEqual(self.browser.run("[view.moment, byId('block').open]"), [block["begin"] + 1, False])

    def test_the_state_at_any_event(self):
        for event in (1, 2, 137, 500, 999, 1000):
            self.set("input[aria-label='after event']", event)
            then = Walk(self.snapshot, 0, event)
            self.assertIn(f": {size_text(then.used)} in use, {size_text(then.held)} held.", self.text("#state"), event)
            # The map draws the same: what is in use, and what is held.
            drawn = self.browser.run("""(() => { const map = view.moment === past().length ? mapAtEnd(past()) : mapAt(past(), view.moment);
                return [map.flatMap(s => s.blocks).filter(b => b.state === "used").reduce((sum, b) => sum + b.requested, 0), map.reduce((sum, s) => sum + s.size, 0),
                        map.flatMap(s => s.blocks).reduce((sum, b) => sum + b.size, 0)]; })()""")
            self.assertEqual(drawn, [then.used, then.held, then.held])
        self.browser.run("document.querySelector('button[aria-label=\"event before\"]').focus()")
        self.browser.key("Enter")
        self.browser.key("Enter")
        self.assertEqual(self.browser.run("view.moment"), 998)

    def test_a_click_on_the_map_opens_a_block(self):
        self.browser.click("canvas", .001)
        self.assertTrue(self.browser.run("byId('block').open"))
        first = min(each["address"] for each in self.whole.blocks)
        self.assertIn(hex(first), self.text("#block"))
        self.browser.key("Escape")
        self.assertFalse(self.browser.run("byId('block').open"))

    def test_search(self):
        sites = self.snapshot["history"]["sites"]
        names = [[self.snapshot["frames"][i]["name"] for i in stack] for stack in self.snapshot["stacks"]]
        for words, of in (("LINEAR3::", lambda name: "Linear3::" in name), ("/linear[12]::f/", lambda name: re.search("Linear[12]::f", name)),
                          ("cublas", lambda name: "cublas" in name)):
            self.search(words)
            hit = [site for site in sites if any(map(of, names[site["stack"]]))]
            share = sum(site["at_peak_bytes"] for site in hit) / self.whole.peak * 100
            self.assertEqual(self.text(".bar [role=status]"), f"{len(hit)} of {len(sites)} call sites, {share:.1f} % of the peak")
            self.assertEqual(len(self.all_rows("all call sites")), len(hit))
            self.assertEqual(len(self.all_rows("blocks")), sum(site["allocations"] for site in hit))
            self.assertIn(f"{share:.1f} %", self.browser.run("document.querySelector('section[aria-label=\"Flame graph\"] [role=status]').textContent"))
        for words, said in (("(", f"{len(sites)} of "), ("/(/", "not a regular expression: Unterminated group")):
            self.search(words)
            self.assertEqual(len(self.all_rows("all call sites")), len(sites))
            self.assertTrue(self.text(".bar [role=status]").startswith(said), self.text(".bar [role=status]"))

    def test_tables_are_sorted_by_keys_and_end_nowhere_silently(self):
        heads = "table[aria-label=blocks] th"

        def column(n):
            return [row[n] for row in self.all_rows("blocks")]

        self.assertEqual(self.browser.run(f"document.querySelectorAll('{heads}')[1].ariaSort"), "descending")
        self.assertIn(f"25 of {len(self.whole.blocks)} rows", self.text("section[aria-label=Blocks]"))
        self.assertEqual(column(1), [size_text(n) for n in sorted((b["bytes"] for b in self.whole.blocks), reverse=True)])
        self.browser.run(f"document.querySelectorAll('{heads} button')[1].focus()")
        self.browser.key("Enter")
        self.assertEqual(self.browser.run(f"document.querySelectorAll('{heads}')[1].ariaSort"), "ascending")
        self.assertEqual(column(1), [size_text(n) for n in sorted(b["bytes"] for b in self.whole.blocks)])
        self.browser.key("Tab")
        self.browser.key(" ")
        self.assertEqual(self.browser.run(f"[...document.querySelectorAll('{heads}')].map(each => each.ariaSort)"),
                         [None, None, "descending", None, None, None, None])

    def test_the_first_rows_of_very_many_are_the_right_ones(self):
        self.assertTrue(self.browser.run("""[true, false].every(down => [1, 7, 100000].every(kinds => [1, 25, 5000, 20000].every(most => {
            const rows = Array.from({ length: 20000 }, (_, i) => i), value = i => (i * 7919) % kinds;
            const all = rows.map(value).sort((a, b) => down ? b - a : a - b).slice(0, most);
            return JSON.stringify(firstRows(rows, value, down, most).map(value)) === JSON.stringify(all);
        })))"""))

    def test_lanes(self):
        self.press("the whole run")
        shown = self.browser.run("[...document.querySelectorAll('.lane')].map(each => [each.querySelector('button').textContent, each.querySelector('span').textContent])")
        names = {0: "none named", 1: "legacy default"}
        calls = {}
        for block in self.whole.blocks:
            calls[block["stream"]] = calls.get(block["stream"], 0) + 1
        self.assertEqual(dict(shown), {names.get(stream, hex(stream)): f"{size_text(peak)}{calls[stream]} calls"
                                       for stream, peak in self.whole.stream_peak.items()})
        self.press("legacy default")
        self.assertEqual(len(self.all_rows("blocks")), calls[1])

    def test_two_files(self):
        later = made_snapshot.training(1400, leak=3)
        later["devices"][0]["stats"]["custash.num_stalls_avoided"] += 3
        after = self.write("after.json", later)
        before = os.path.join(self.folder, "app.json")
        page = self.report(before, after)
        self.assertEqual(page, after + ".html")
        changes = json.loads(custash("diff", "--json", before, after).stdout)
        self.browser.open(page)
        grown = sum(each["bytes_after"] - each["bytes_before"] for each in changes)
        self.assertEqual(self.text("#changed"), f"+{size_text(grown)} (+{grown:,} bytes) in use, at {len(changes)} call sites.".replace(" 1 call sites", " 1 call site"))
        rows = [row for row in self.all_rows("changed call sites") if row[1] != "0"]
        self.assertEqual(sorted(row[1] for row in rows), sorted(("+" if by > 0 else "") + size_text(by) for by in
                                                               (each["bytes_after"] - each["bytes_before"] for each in changes) if by))
        self.assertEqual(self.browser.run("[...byId('file').options].map(each => each.text)"), ["app.json", "after.json"])
        peaks = self.browser.run("[...document.querySelectorAll('.pair svg')].map(each => each.getAttribute('aria-label'))")
        self.assertIn("peak " + size_text(self.whole.peak), peaks[0])
        self.assertEqual(self.browser.run("document.querySelector('.pair').nextSibling.className"), "legend")
        tones = self.browser.run("Object.fromEntries([...document.querySelectorAll('table[aria-label=\"numbers of both files\"] tbody tr')]"
                                 ".map(row => [row.cells[0].textContent, row.cells[3].firstChild.className]))")
        self.assertEqual([tones[name] for name in ("frees that did not wait", "allocations", "in use at the snapshot", "out of memory")],
                         ["less", "dim", "more", "dim"])
        self.set("#file", "0")
        self.assertEqual(self.text("#stretch"), "All 1,000 events.")
        # Such a page is none of one file.
        done = custash("leaks", page)
        self.assertEqual((done.returncode, done.stderr), (1, f"custash: {page}: a report of two files; name one of those\n"))

    def test_functions_of_one_name_are_told_apart(self):
        snapshot = json.loads(json.dumps(self.snapshot))
        names = ["alone", "two", "two"]
        for i, frame in enumerate(snapshot["frames"]):
            frame.update(name=names[i % 3], file="", module="/opt/model", offset=i)
        self.browser.open(self.report(self.write("names.json", snapshot)))
        said = self.text(".legend")
        self.assertRegex(said, r"two \(model\+0x[0-9a-f]+\)")
        self.assertNotRegex(said, r"two(?! \(model)")

    def test_nothing_in_a_file_becomes_part_of_the_page(self):
        snapshot = json.loads(json.dumps(self.snapshot))
        snapshot["program"] = EVIL[0]
        for i, frame in enumerate(snapshot["frames"]):
            frame.update(name=EVIL[i % 4] + frame["name"], file=EVIL[(i + 1) % 4], module="" if i % 2 else EVIL[1] + frame["module"])
        for site in snapshot["history"]["sites"]:
            site["caller"] = EVIL[site["stack"] % 4]
        name = self.write("<img src=x onerror=document.title=1>.json", snapshot)
        for page in (self.report(name), self.report(os.path.join(self.folder, "app.json"), name, "-o", name + ".two.html")):
            self.browser.open(page)
            elements = "document.querySelectorAll('script:not([id]), img, b:not(.tile b), [onerror], [onclick], a').length"
            self.assertEqual(self.browser.run(elements), 1)  # the page's own script
            self.browser.run("showBlock(3)")
            self.browser.run("document.querySelector('.flame button').onmousemove({ clientX: 5, clientY: 5 })")
            self.search("img src")
            self.assertEqual(self.browser.run("[document.title, " + elements + "]"), ["custash: GPU memory report", 1])
            self.assertIn(EVIL[1], self.browser.run("document.body.textContent"))
        # Even markup that got in would run nothing: the page names its one script.
        self.browser.run("""document.body.insertAdjacentHTML("beforeend", `<img src="data:," onerror="document.title = 'run'">`)""")
        self.browser.run("(() => { const node = document.createElement('script'); node.textContent = \"document.title = 'run'\"; document.body.append(node); })()")
        self.browser.run("new Promise(done => setTimeout(done, 200))")
        self.assertEqual(self.browser.run("document.title"), "custash: GPU memory report")
        self.assertTrue(any("Content Security Policy" in each for each in self.browser.complaints))
        self.browser.complaints.clear()

    def test_it_asks_the_network_for_nothing(self):
        self.assertEqual([each for each in self.browser.requests if not each.startswith("file://" + self.page)], [])

    def test_narrow_wide_light_dark(self):
        for width in (360, 480, 1280):
            for theme in ("light", "dark"):
                self.browser.look(width, theme=theme, still=True)
                self.browser.open(self.page)
                self.browser.run("choose(100, 400)")
                self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width)
                small = self.browser.run("""[...document.querySelectorAll("svg text")].filter(each => each.getBoundingClientRect().height < 10).length""")
                self.assertEqual(small, 0)
                # No column is squeezed to a few letters.
                self.assertEqual(self.browser.run("""[...document.querySelectorAll("td:first-child")].filter(each => each.clientWidth < 100).length"""), 0)
                dark = self.browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(16, 20, 28)"
                self.assertEqual(dark, theme == "dark")
                self.browser.run("byId('theme').click()")
                self.assertNotEqual(self.browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(16, 20, 28)", dark)
                self.assertEqual(self.browser.run("document.getAnimations().length"), 0)

    def test_axe(self):
        found = importlib.util.find_spec("axe_playwright_python")
        if found is None:
            self.skipTest("no axe-core here (pip install axe-playwright-python)")
        with open(os.path.join(os.path.dirname(found.origin), "axe.min.js"), encoding="utf-8") as file:
            axe = file.read()
        for theme in ("light", "dark"):
            for width in (360, 1280):
                self.browser.look(width, theme=theme)
                self.browser.open(self.page)
                for script in ("choose(200, 600)", "showBlock(5)"):
                    self.browser.run(script)
                    self.browser.run(axe + "; 1")
                    said = self.browser.run("axe.run().then(r => r.violations.map(v => `${v.id}: ${v.nodes.length}, ${v.nodes[0].html} ${v.nodes[0].failureSummary}`))")
                    self.assertEqual(said, [], (theme, width, script))

    def test_long_recordings_are_small(self):
        # 10 MB for a million events.
        page = self.report(self.write("long.json", made_snapshot.training(100_000)))
        self.assertLess(os.path.getsize(page), 1_000_000)
        self.browser.open(page)
        self.assertEqual(self.text("#stretch"), "All 100,000 events.")

    def test_a_page_is_read_again(self):
        again = self.report(self.page, "-o", os.path.join(self.folder, "again.html"))
        self.browser.open(again)
        self.assertEqual(self.browser.run("[past().length, past().blocks, past().usedAt(500)]"), [1000, len(self.whole.blocks), Walk(self.snapshot, 0, 500).used])

    def test_time_that_goes_back(self):
        snapshot = json.loads(json.dumps(self.snapshot))
        events = snapshot["history"]["events"]
        events[500][0] -= 1001  # steps back are odd and even
        events[700][0] -= 1000
        self.browser.open(self.report(self.write("back.json", snapshot)))
        self.assertEqual(self.browser.run("[...past().time]"), [event[0] for event in events])

    def test_events_lost_and_blocks_older_than_the_events(self):
        snapshot = json.loads(json.dumps(self.snapshot))
        history = snapshot["history"]
        history["events"], history["events_lost"] = history["events"][400:], 400
        self.browser.open(self.report(self.write("lost.json", snapshot)))
        self.assertIn("the first 400 of 1,000 are lost", self.text("main"))
        self.assertIn("To keep all, run it with the option history:1000 or more.", self.text("main"))
        for event in (0, 1, 300, 600):
            self.assertEqual(self.browser.run(f"[past().usedAt({event}), past().heldAt({event})]"),
                             [Walk(self.snapshot, 0, 400 + event).used, Walk(self.snapshot, 0, 400 + event).held])


shared.main()
