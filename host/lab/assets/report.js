// Draws the plots of the report with uPlot. Without this script only the plots are missing.
"use strict";
(() => {
  const report = JSON.parse(document.getElementById("report").textContent);
  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colour = role => css(role === "without" ? "--without" : role === "with" ? "--with" : `--n${2 + ((role.nth ?? 2) - 2 + 6) % 6}`);
  const font = (size, weight = 400) => `${weight} ${size}px ${css("--sans")}`;

  // Formats numbers like the text of the report: three significant digits, grouped thousands.
  const group = text => text.replace(/^(-?)(\d{5,})/, (_, sign, digits) => sign + digits.replace(/\B(?=(\d{3})+$)/g, "\u202f"));
  const number = v => {
    const a = Math.abs(v), digits = a >= 99.95 || v === 0 ? 0 : a >= 9.995 ? 1 : a >= 0.0995 ? 2 : 3;
    return group(v.toFixed(digits).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, ""));
  };
  const seconds = v => {
    const a = Math.abs(v);
    if (a === 0) return "0 s";
    if (a < 1e-3) return `${number(v * 1e6)} µs`;
    if (a < 1) return `${number(v * 1e3)} ms`;
    if (a < 119.5) return `${number(v)} s`;
    return `${Math.trunc(Math.round(v) / 60)} min ${Math.round(a) % 60} s`;
  };
  const a10 = v => Math.abs(v) >= 10240 ? `${number(v / 1024)} GiB` : `${number(v)} MiB`;
  const show = (v, unit) => v == null ? "–" : {
    seconds: () => seconds(v), milliseconds: () => seconds(v / 1e3), per_second: () => `${number(v)} /s`, mib_per_second: () => `${number(v)} MiB/s`,
    mebibytes: () => a10(v), count: () => number(v), times: () => `${number(v)}×`, percent: () => `${number(v)} %`,
  }[unit]();

  // Axis labels are short and round, so minutes have no seconds.
  // All ticks of an axis have the unit of its highest value.
  const tick = (v, unit, top) => {
    if (v === 0) return "0";
    if (unit === "seconds") return top >= 240 ? `${number(v / 60)} min` : top >= 1 ? `${number(v)} s` : `${number(v * 1e3)} ms`;
    if (unit === "mib_per_second" && top >= 10240) return `${number(v / 1024)} GiB/s`;
    return show(v, unit);
  };
  const ticks = (v, unit, log) => { const top = Math.max(...v.filter(t => t != null)); return v.map(t => t == null ? null : tick(t, unit, log ? t : top)); };

  // Groups of bars that are narrower have a smaller font.
  const NARROW = 62;
  // Breaks a label into lines that fit below a group of bars.
  function wrap(label, room) {
    const most = Math.max(5, Math.floor(room / (room < NARROW ? 5.8 : 7))), lines = [""];
    for (const word of label.split(" ")) {
      const last = lines[lines.length - 1];
      if (last && last.length + word.length + 1 > most) lines.push(word); else lines[lines.length - 1] = last ? `${last} ${word}` : word;
    }
    return lines.map(line => line.length > most + 3 ? `${line.slice(0, most + 2)}…` : line);
  }

  // Aligns all series to the union of their x values; missing points are null.
  function align(series, shift) {
    const xs = [...new Set(series.flatMap((s, i) => s.points.map(p => shift(p.x, i))))].sort((a, b) => a - b);
    const at = new Map(xs.map((x, i) => [x, i]));
    const columns = series.map((s, i) => {
      const column = { y: Array(xs.length).fill(null), ends: Array(xs.length).fill(null) };
      for (const p of s.points) { column.y[at.get(shift(p.x, i))] = p.y; column.ends[at.get(shift(p.x, i))] = p.ends; }
      return column;
    });
    return { xs, columns };
  }

  const axis = (label, over) => ({ label, labelSize: label ? 22 : 0, labelFont: font(12), font: font(12), stroke: css("--soft"), grid: { stroke: css("--grid"), width: 1 }, ticks: { show: false }, ...over });

  function whiskers(u, columns, xs, shape) {
    const { ctx } = u, ratio = devicePixelRatio;
    ctx.save();
    ctx.lineWidth = 1.3 * ratio;
    columns.forEach((column, i) => {
      if (!u.series[i + 1].show) return;
      ctx.strokeStyle = shape === "bars" ? css("--ink") : u.series[i + 1].stroke(u, i + 1);
      column.ends.forEach((ends, k) => {
        if (!ends) return;
        const x = Math.round(u.valToPos(xs[k], "x", true)), cap = 3.5 * ratio;
        const [low, high] = ends.map(v => u.valToPos(Math.max(v, u.scales.y.min), "y", true));
        ctx.beginPath();
        ctx.moveTo(x, low); ctx.lineTo(x, high);
        ctx.moveTo(x - cap, low); ctx.lineTo(x + cap, low); ctx.moveTo(x - cap, high); ctx.lineTo(x + cap, high);
        ctx.stroke();
      });
    });
    ctx.restore();
  }

  function labels(u, columns, xs, unit) {
    const { ctx } = u, ratio = devicePixelRatio;
    const shown = columns.reduce((n, c) => n + c.y.filter(v => v != null).length, 0);
    const room = u.bbox.width / ratio / Math.max(shown, 1);
    // Narrower labels would overlap; the table below has all numbers.
    if (room < 40) return;
    ctx.save();
    ctx.textAlign = "center"; ctx.textBaseline = "bottom"; ctx.fillStyle = css("--ink");
    ctx.font = font((room < 44 ? 9.5 : room < 58 ? 10.5 : 12) * ratio, 600);
    columns.forEach((column, i) => u.series[i + 1].show && column.y.forEach((v, k) => {
      if (v == null) return;
      const top = Math.max(v, column.ends?.[k]?.[1] ?? v);
      ctx.fillText(show(v, unit), u.valToPos(xs[k], "x", true), u.valToPos(top, "y", true) - 4 * ratio);
    }));
    ctx.restore();
  }

  // Draws the bands below the curves (named = false) and their names above them (named = true).
  function bands(u, plot, named) {
    const { ctx, bbox } = u, ratio = devicePixelRatio;
    ctx.save();
    for (const band of plot.bands) {
      const left = Math.max(u.valToPos(band.from, "x", true), bbox.left), right = Math.min(u.valToPos(band.to, "x", true), bbox.left + bbox.width);
      if (!named) {
        ctx.fillStyle = css("--tint");
        ctx.fillRect(left, bbox.top, right - left, bbox.height);
        continue;
      }
      ctx.font = font(11 * ratio); ctx.textAlign = "right"; ctx.textBaseline = "top";
      const width = ctx.measureText(band.name).width;
      ctx.fillStyle = css("--card");
      ctx.fillRect(right - width - 8 * ratio, bbox.top + 2 * ratio, width + 6 * ratio, 15 * ratio);
      ctx.fillStyle = css("--soft");
      ctx.fillText(band.name, right - 5 * ratio, bbox.top + 4 * ratio);
    }
    ctx.restore();
  }

  function scaleY(plot) {
    if (plot.y.log) return { distr: 3 };
    return { range: (u, _, max) => [0, (max || 1) * 1.16] };
  }

  function options(plot, box, data, siblings) {
    const { xs, columns } = data, isBars = plot.shape === "bars";
    const small = box.closest(".published") != null;
    const height = (isBars ? (small ? 190 : 250) : small ? 200 : 280) + 24;
    // The scale includes the whiskers, because a scale of the medians only would cut them off.
    const highest = Math.max(0, ...columns.flatMap(c => c.ends.filter(Boolean).map(e => e[1])), ...columns.flatMap(c => c.y.filter(v => v != null)));
    const y = scaleY(plot);
    if (y.range) { const range = y.range; y.range = (u, min) => range(u, min, highest); }
    const series = plot.series.map((s, i) => {
      const stroke = () => colour(s.role);
      const common = { label: s.name, stroke, value: (u, v) => show(v, plot.y.unit) };
      if (isBars) return { ...common, fill: stroke, width: 0, paths: uPlot.paths.bars({ size: [0.9, 84], radius: 0.06 }), points: { show: false } };
      const time = plot.shape === "time";
      return { ...common, width: time ? 1.6 : 2.2, spanGaps: true, fill: time && plot.series.length < 3 ? () => `color-mix(in srgb, ${colour(s.role)} 9%, transparent)` : undefined, points: { show: !time, size: 6, fill: stroke } };
    });
    const places = plot.places.length;
    // All curves over time of one experiment have the same scale.
    const ends = plot.shape === "time" ? siblings.filter(p => p.shape === "time").flatMap(p => p.series.flatMap(s => s.points.map(q => q.x))) : [];
    const x = isBars ? { time: false, range: [-0.55, places - 0.45] } : ends.length ? { time: false, range: [0, Math.max(...ends) || 1] } : { time: false, distr: plot.x.log ? 3 : 1 };
    const room = (Math.max(box.clientWidth, 200) - 110) / Math.max(places, 1);
    const wrapped = plot.places.map(place => wrap(place, room));
    const lines = Math.max(1, ...wrapped.map(w => w.length)), names = wrapped.map(w => w.join("\n"));
    const xAxis = isBars
      ? axis("", { splits: () => plot.places.map((_, i) => i), values: () => names, grid: { show: false }, size: 16 + 15 * lines, font: font(room < NARROW ? 10 : 12) })
      : axis(plot.x.label, { size: 30, values: (u, v) => ticks(v, plot.x.unit, plot.x.log) });
    return {
      width: Math.max(box.clientWidth, 200), height, series: [{ label: plot.x.label || "at", value: (u, v) => show(v, plot.x.unit) }, ...series],
      scales: { x, y }, axes: [xAxis, axis(small ? "" : plot.y.label, { size: 76, values: (u, v) => ticks(v, plot.y.unit, plot.y.log) })],
      legend: { live: !isBars, show: !(isBars && plot.series.length === 1), markers: { width: 0, fill: (u, i) => u.series[i].stroke(u, i) } }, cursor: { show: !isBars, drag: { x: !isBars, y: false }, points: { size: 8 } },
      padding: [12, 38, 0, 0],
      hooks: {
        drawClear: [u => bands(u, plot, false)],
        draw: [u => bands(u, plot, true), u => whiskers(u, columns, xs, plot.shape), ...(isBars ? [u => labels(u, columns, xs, plot.y.unit)] : [])],
      },
    };
  }

  const drawn = new Map();
  function draw(box) {
    const [at, whose, index] = box.dataset.plot.split(".");
    const plot = report.outcomes[at][whose].plots[index];
    const width = 0.8 / plot.series.length;
    const shift = plot.shape === "bars" ? (x, i) => +(x + (i - (plot.series.length - 1) / 2) * width).toFixed(6) : x => x;
    const data = align(plot.series, shift);
    drawn.get(box)?.destroy();
    box.classList.toggle("bars", plot.shape === "bars");
    drawn.set(box, new uPlot(options(plot, box, data, report.outcomes[at][whose].plots), [data.xs, ...data.columns.map(c => c.y)], box));
  }

  const boxes = [...document.querySelectorAll("[data-plot]")];
  const all = () => { boxes.forEach(draw); document.documentElement.dataset.drawn = `${drawn.size}/${boxes.length}`; };
  all();

  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; all(); } });
  const root = document.documentElement.dataset, dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", all);
  document.getElementById("theme").addEventListener("click", () => {
    const now = root.theme ?? (dark.matches ? "dark" : "light");
    root.theme = now === "dark" ? "light" : "dark";
    all();
  });
  // Printing always uses the light theme.
  let before;
  addEventListener("beforeprint", () => { before = root.theme; root.theme = "light"; all(); });
  addEventListener("afterprint", () => { if (before) root.theme = before; else delete root.theme; all(); });

  for (const time of document.querySelectorAll("time[data-ms]")) {
    time.textContent = new Date(+time.dataset.ms).toLocaleString(undefined, { dateStyle: "long", timeStyle: "short" });
  }
  const links = new Map([...document.querySelectorAll("nav a")].map(a => [a.hash.slice(1), a]));
  const seen = new IntersectionObserver(entries => entries.forEach(e => links.get(e.target.id)?.classList.toggle("here", e.isIntersecting)), { rootMargin: "-40% 0px -55% 0px" });
  document.querySelectorAll(".experiment").forEach(section => seen.observe(section));
})();
