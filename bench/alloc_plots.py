# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of bench/alloc, drawn by gnuplot. Each function gets the run and returns the name of the
picture, or the reason why there is none. The script, which contains its data, stays beside the
picture, so that it can be changed and run again."""
import os
import shutil
import subprocess

COLOURS = {
    "next-fit": "#08519c", "first-fit": "#3182bd", "best-fit": "#e6550d", "worst-fit": "#fdae6b", "random-fit": "#9e9ac8",
    "segregated-fit": "#de2d26",
    "mimalloc": "#31a354", "jemalloc": "#a1d99b", "glibc": "#969696", "empty calls": "#d9d9d9",
    "block, next-fit": "#08519c", "tag, next-fit": "#6baed6", "tag, best-fit": "#e6550d", "channel, best-fit": "#fdae6b",
    "block, next": "#08519c", "tag, next": "#6baed6", "tag, best": "#e6550d", "tag, worst": "#fdae6b", "channel, best": "#756bb1",
    "channel, worst": "#bcbddc", "thesis: tag": "#bdbdbd", "thesis: channel": "#636363",
    "next, block": "#08519c", "next, tag": "#6baed6", "first, tag": "#3182bd", "best, tag": "#e6550d", "worst, tag": "#fdae6b",
    "random, tag": "#9e9ac8", "here, stream": "#08519c", "here, one way": "#6baed6", "thesis": "#969696",
}
STYLE = """set border 3 lc rgb '#555555'
set tics nomirror textcolor rgb '#333333'
set grid y lt 1 lc rgb '#dddddd' lw 0.7
set datafile missing '-'
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.95 border rgb '#ffffff'
set boxwidth 1
set key outside right top vertical Left reverse samplen 1.2 spacing 1.2
"""


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def draw(run, name, size, body):
    png, script = os.path.join(run.options.out, f"{name}.png"), os.path.join(run.options.out, f"{name}.gp")
    text = f"set terminal pngcairo size {size[0]},{size[1]} font 'Sans,11' noenhanced\nset output {quoted(png)}\n{STYLE}{body}"
    with open(script, "w", encoding="utf-8") as file:
        file.write(text)
    if os.path.exists(png):
        os.remove(png)
    if shutil.which("gnuplot") is None:
        return "gnuplot is not installed (Debian: gnuplot-nox)"
    done = subprocess.run(["gnuplot", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode != 0 or not os.path.exists(png):
        return f"{name}.png: gnuplot failed: {' '.join(done.stderr.split())[:300] or done.returncode}"
    return png


def value(x):
    return "-" if x is None else f"{x:.6g}"


def block(name, rows):
    """A named block of data: rows of (label, values), and the axis that they need"""
    lines = [" ".join([f'"{label}"'] + [value(v) for v in values]) for label, values in rows]
    deepest = max([label.count("\\n") for label, _ in rows] + [0])
    return f"${name} << EOD\n" + "\n".join(lines) + f"\nEOD\nset xrange [-0.6:{len(rows) - 0.4:.1f}]\nset bmargin {deepest + 2.5}\n"


def bars(name, columns, rows, titles=True):
    """One cluster for each row, one bar for each column that has a value"""
    parts = []
    for i, column in enumerate(columns):
        if all(values[i] is None for _, values in rows):
            continue
        title = f"title {quoted(column)}" if titles else "notitle"
        parts.append(f"${name} using {i + 2}:xtic(1) lc rgb '{COLOURS[column]}' {title}")
    return "plot " + ", \\\n     ".join(parts or ["NaN notitle"]) + "\n"


def short(count):
    return f"{count // 1000000}M" if count >= 1000000 else f"{count // 1000}k" if count >= 1000 else str(count)


def median(sample):
    return None if sample is None else sample.median


def relative(a, b):
    return None if a is None or b is None else a.median / b.median


def pairs(run, traces, names):
    body = "set multiplot layout 2,1 title 'An allocation and its free, on the same traces' font ',14'\nset ylabel 'ns (median)'\n" \
           "set logscale y 10\nset yrange [1:*]\n"
    for touch, label in ((0, "not touched"), (1, "first word written")):
        rows = [(t, [median(run.sample("pairs", trace=t, touch=touch, allocator=n)) for n in names]) for t in traces]
        body += block(f"d{touch}", rows) + f"set title 'Memory {label}'\n" + bars(f"d{touch}", names, rows)
    return draw(run, "pairs", (1100, 800), body + "unset multiplot\n")


def scale(run, lives, names):
    ticks = ", ".join(f"'{short(v)}' {v}" for v in lives)
    body = "set multiplot layout 1,2 title 'One live block freed at random, another allocated' font ',14'\n" \
           "set logscale xy\nset xlabel 'live blocks'\nset bmargin 8\nset ylabel 'ns (median)'\nset grid x y lt 1 lc rgb '#dddddd' lw 0.7\n" \
           f"set xtics ({ticks})\nset key below horizontal center Left reverse samplen 2 spacing 1.1 maxrows 2\n" \
           f"set xrange [{lives[0] * 0.8:.3g}:{lives[-1] * 1.25:.8g}]\n"
    samples = [run.sample("scale", live=v, most=m, allocator=n) for v in lives for m in (64, 256) for n in names]
    found = [s.median for s in samples if s]
    if found:
        body += f"set yrange [{min(found) * 0.8:.4g}:{max(found) * 1.25:.4g}]\n"
    for least, most in ((64, 64), (16, 256)):
        parts = []
        body += f"set title '{'blocks of 64 B' if least == most else f'blocks of {least} to {most} B'}'\n"
        for i, n in enumerate(names):
            points = [(v, run.sample("scale", live=v, most=most, allocator=n)) for v in lives]
            if all(s is None for _, s in points):
                continue
            body += f"$s{most}_{i} << EOD\n" + "".join(f"{v} {s.median:.6g}\n" for v, s in points if s) + "EOD\n"
            peer = n in ("mimalloc", "jemalloc", "glibc")
            dash = 3 if n == "empty calls" else 2 if peer else 1
            parts.append(f"$s{most}_{i} using 1:2 with linespoints lw 2 dt {dash} pt {6 if peer else 7} ps 0.8 "
                         f"lc rgb '{COLOURS[n]}' title {quoted(n)}")
        body += "plot " + ", \\\n     ".join(parts or ["NaN notitle"]) + "\n"
    return draw(run, "scale", (1200, 620), body + "unset multiplot\n")


def fragmentation(run, traces, names):
    rows = []
    for t in traces:
        found = {r["allocator"]: r.get("ratio") for r in run.find("fragmentation", trace=t)}
        rows.append((t, [found.get(n) for n in names]))
    return draw(run, "fragmentation", (1100, 520), block("d", rows) +
                "set title 'Memory that a trace needs: peak heap by peak live bytes (mallocs: resident memory)' font ',13'\n"
                "set ylabel 'peak heap / peak live'\nset logscale y 2\nset yrange [0.5:*]\nset format y '%g'\n" + bars("d", names, rows))


def threads(run, kinds, names):
    rows = [(what.replace(", ", "\\n"), [median(found[n]) for n in names]) for what, found in kinds]
    return draw(run, "threads", (1200, 540), block("d", rows) +
                "set title 'Allocated by one thread, freed by another: pipes, and mallocs with a ring of pointers' font ',13'\n"
                "set ylabel 'ns a block (median)'\nset logscale y 10\nset yrange [10:*]\n" + bars("d", names, rows))


def modes(run, how, sizes, thesis, bytes_of):
    ours = [n for n in how if n != "block, next"]
    columns = ours + ["thesis: tag", "thesis: channel"]
    body = "set multiplot layout 2,1 title 'Table 6.1: time of a message by its time with block synchronization, next-fit' font ',14'\n" \
           "set ylabel 'time / time with block'\nset yrange [0:*]\nset arrow 1 from graph 0, first 1 to graph 1, first 1 nohead lc rgb '#555555' dt 2\n"
    for i, (test, label) in enumerate((("stream", "stream: time between two messages"), ("pingpong", "one way: half a round trip"))):
        rows = []
        for op in ("put", "get"):
            for size in sizes:
                found = {n: run.sample("modes", group=f"{op} {size} {test}", name=n) for n in how}
                his = thesis.get((op, size))
                rows.append((f"{'rwrite' if op == 'put' else 'rread'}\\n{bytes_of(size)}",
                             [relative(found[n], found["block, next"]) for n in ours] +
                             ([his[1] / his[0], his[3] / his[0]] if his else [None, None])))
        body += block(f"d{i}", rows) + f"set title {quoted(label)}\n" + bars(f"d{i}", columns, rows)
    return draw(run, "table_6_1", (1150, 820), body + "unset multiplot\n")


def bounded(run, names, thesis):
    columns, rows = ["here, stream", "here, one way", "thesis"], []
    for n in names:
        rows.append((n.replace(" ", "\\n").replace("fit", ""), [relative(run.sample("bounded", group=test, name=n),
                                                      run.sample("bounded", group=test, name="unbounded"))
                                             for test in ("stream", "pingpong")] + [thesis[n][1] if n in thesis else None]))
    return draw(run, "table_6_2", (1150, 560), block("d", rows) + "set bmargin 7\n"
                "set title 'Table 6.2: time of a message of 8 B by its time in an unbounded heap' font ',13'\n"
                "set ylabel 'time / time unbounded'\nset yrange [0:*]\nset xlabel 'messages that the heap holds, heuristic' offset 0,-2.4\n"
                "set arrow 1 from graph 0, first 1 to graph 1, first 1 nohead lc rgb '#555555' dt 2\n" + bars("d", columns, rows))


def irregular(run, how, orders, delays):
    names = list(how)
    body = "set multiplot layout 2,1 title 'Figure 6.14: the reader frees out of order, and takes its time' font ',14'\nset xtics font ',9'\n"
    rows = [(f"{order}\\n{delay} us", [relative(run.sample("irregular", group=f"{delay}", name=f"{n} {order}"),
                                                run.sample("irregular", group=f"{delay}", name=f"{n} {usual}")) for n in names])
            for order, usual in orders.items() if order != usual for delay in delays]
    body += block("d0", rows) + "set title 'slowdown against regular frees with the same delay'\nset ylabel 'slowdown'\n" \
        "set logscale y 2\nset yrange [0.5:*]\nset format y '%g'\n" \
        "set arrow 1 from graph 0, first 1 to graph 1, first 1 nohead lc rgb '#555555' dt 2\n" + bars("d0", names, rows)
    rows = [(f"{order}\\n{delay} us", [median(run.sample("irregular", group=f"{delay}", name=f"{n} {order}")) for n in names])
            for order in orders for delay in delays]
    body += block("d1", rows) + "unset arrow 1\nset title 'time of a message'\nset ylabel 'ns (median)'\nset logscale y 10\n" \
        "set yrange [10:*]\n" + bars("d1", names, rows)
    return draw(run, "figure_6_14", (1150, 820), body + "unset multiplot\n")
