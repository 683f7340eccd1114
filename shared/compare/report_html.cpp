#include "shared/compare/report_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "shared/compare/table.h"
#include "shared/ir/memory.h"
#include "shared/ir/schedule_json.h"
#include "shared/ir/schedule_names.h"
#include "shared/timeline/memory_curve.h"
#include "shared/units.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr int kPeriodsDrawn = 3;
constexpr std::size_t kMemoryPointsDrawn = 3000;  // per tier and timeline
constexpr std::size_t kOpsDrawn = 150'000;        // per timeline; beyond it one period is drawn

constexpr const char* kStyle = R"(<style>
:root { --ink:#1d1d1b; --soft:#6b6a66; --line:#dddcd6; --page:#fbfbf9; --bar:#2a78d6; --bar2:#8d8b85;
  --forward:#2a78d6; --loss:#d98a00; --backward:#6b4fc0; --optimizer:#1a9c6c; }
@media (prefers-color-scheme: dark) { :root { --ink:#ecebe6; --soft:#a3a19a; --line:#3a3936; --page:#1a1a18;
  --bar:#4b93e6; --bar2:#85837d; --forward:#4b93e6; --loss:#e0a030; --backward:#9a83e6; --optimizer:#35b685; } }
body { font:15px/1.45 system-ui,sans-serif; color:var(--ink); background:var(--page); margin:2em auto; max-width:1200px; padding:0 1em; }
h1 { font-size:1.4em; margin-bottom:0; } h2 { font-size:1.1em; margin-top:2em; }
p.soft, .soft { color:var(--soft); }
table { border-collapse:collapse; font-variant-numeric:tabular-nums; }
th, td { padding:.2em .9em .2em 0; text-align:right; border-bottom:1px solid var(--line); }
th:first-child, td:first-child { text-align:left; } th { font-weight:600; color:var(--soft); }
tr.part td:first-child { padding-left:1.2em; }
.tiles { display:flex; flex-wrap:wrap; gap:2.5em; margin:1.2em 0; } .tiles b { display:block; font-size:1.6em; font-weight:600; }
.meter { width:260px; height:9px; background:var(--line); border-radius:2px; text-align:left; }
.meter i { display:block; height:100%; min-width:1px; background:var(--bar); border-radius:2px; } .meter i.m { background:var(--bar2); }
.meter + .meter { margin-top:2px; }
.key i { display:inline-block; width:.8em; height:.8em; border-radius:2px; margin:0 .35em 0 1em; }
canvas { width:100%; border:1px solid var(--line); cursor:grab; touch-action:none; }
#tip { min-height:1.5em; font-variant-numeric:tabular-nums; }
pre { overflow-x:auto; border:1px solid var(--line); padding:.8em; }
</style>
)";

// Draws DATA.timelines, lane by lane, predicted above measured. x: seconds from the aligned step boundary.
constexpr const char* kScript = R"JS(<script>
const canvas = document.getElementById('lanes'), tip = document.getElementById('tip'), g = canvas.getContext('2d');
const LEFT = 150, ROW = 18, GAP = 10, TOP = 22, PHASES = ['forward', 'loss', 'backward', 'optimizer'];
const rows = [];
DATA.lanes.forEach((lane, i) => DATA.timelines.forEach((timeline, t) =>
  rows.push({lane, source: timeline.source, y: TOP + i * (2 * ROW + GAP) + t * ROW,
             bars: timeline.bars.filter(bar => DATA.ops[bar[0]][1] === i)})));
const TIER = 64, tiers = DATA.tiers.map((name, i) => {
  const curves = DATA.timelines.map(timeline => timeline.memory[i]);
  return {name, curves, y: TOP + DATA.lanes.length * (2 * ROW + GAP) + i * (TIER + GAP),
          top: Math.max(1, ...curves.flat().map(point => point[1]))}; });
const height = TOP + DATA.lanes.length * (2 * ROW + GAP) + tiers.length * (TIER + GAP);
const bytes = b => b >= 2 ** 30 ? (b / 2 ** 30).toFixed(2) + ' GiB' : b >= 2 ** 20 ? (b / 2 ** 20).toFixed(2) + ' MiB' : (b / 1024).toFixed(2) + ' KiB';
const live = (curve, s) => { let b = curve[0][1]; for (const point of curve) { if (point[0] > s) break; b = point[1]; } return b; };
let from = -0.02 * DATA.end, to = DATA.end;
const css = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const time = s => { const a = Math.abs(s); return a < 1e-12 ? '0' : a >= 1 ? s.toFixed(3) + ' s' : a >= 1e-3 ? (s * 1e3).toFixed(3) + ' ms' : (s * 1e6).toFixed(1) + ' us'; };
const width = () => canvas.clientWidth - LEFT;
const at = s => LEFT + (s - from) / (to - from) * width();
const first = bars => { let a = 0, b = bars.length; while (a < b) { const m = (a + b) >> 1; if (bars[m][2] < from) a = m + 1; else b = m; } return a; };
function draw() {
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = height + 'px'; canvas.width = canvas.clientWidth * ratio; canvas.height = height * ratio;
  g.setTransform(ratio, 0, 0, ratio, 0, 0); g.font = '12px system-ui,sans-serif'; g.textBaseline = 'middle';
  const ink = css('ink'), soft = css('soft'), line = css('line'), colors = PHASES.map(css);
  const step = 10 ** Math.floor(Math.log10((to - from) / 4)), tick = (to - from) / step > 10 ? step * 5 : step;
  g.save(); g.beginPath(); g.rect(LEFT, 0, width(), height); g.clip();
  for (let k = Math.ceil(from / tick); k * tick < to; ++k) {
    g.fillStyle = line; g.fillRect(at(k * tick), TOP - 6, 1, height); g.fillStyle = soft; g.fillText(time(k * tick), at(k * tick) + 3, 9);
  }
  for (const row of rows) {
    let drawn = -1;
    for (let i = first(row.bars); i < row.bars.length && row.bars[i][1] < to; ++i) {
      const [op, start, end] = row.bars[i], x = at(start), x2 = Math.max(at(end), x + 0.5);
      if (x2 - drawn < 0.5) continue;  // thinner than a pixel beside one already drawn
      g.fillStyle = colors[DATA.ops[op][2]]; g.globalAlpha = row.source === 'measured' ? 0.65 : 1;
      g.fillRect(x, row.y + 1, x2 - x - (x2 - x > 3 ? 1 : 0), ROW - 2); drawn = x2; g.globalAlpha = 1;
      const name = DATA.ops[op][0];
      if (x2 - x > 60) { g.save(); g.beginPath(); g.rect(x, row.y, x2 - x - 3, ROW); g.clip(); g.fillStyle = '#fff';
        g.fillText(name, Math.max(x, LEFT) + 4, row.y + ROW / 2); g.restore(); }
    }
  }
  DATA.timelines.forEach((timeline, t) => timeline.boundaries.forEach(s => { g.fillStyle = ink;
    rows.forEach(row => { if (row.source === timeline.source) g.fillRect(at(s) - 1, row.y, 1.5, ROW); }); }));
  for (const tier of tiers) tier.curves.forEach((curve, t) => {
    const up = b => tier.y + TIER - b / tier.top * (TIER - 4);
    g.beginPath(); g.moveTo(LEFT, up(live(curve, from)));
    let last = live(curve, from);
    const stop = Math.min(to, DATA.timelines[t].until);
    for (const [s, b] of curve) if (s > from && s < stop) { g.lineTo(at(s), up(last)); g.lineTo(at(s), up(b)); last = b; }
    g.lineTo(at(stop), up(last)); g.strokeStyle = css(t ? 'bar2' : 'bar'); g.lineWidth = 1.5; g.stroke();
    if (t === 0) { g.lineTo(at(stop), up(0)); g.lineTo(LEFT, up(0)); g.fillStyle = css('bar'); g.globalAlpha = 0.15; g.fill(); g.globalAlpha = 1; }
  });
  g.restore();
  for (const tier of tiers) {
    g.fillStyle = ink; g.fillText(tier.name + ' live bytes', 4, tier.y + TIER / 2 - 8, LEFT - 8);
    g.fillStyle = soft; g.fillText('peak ' + bytes(tier.top), 4, tier.y + TIER / 2 + 8, LEFT - 8);
  }
  rows.forEach((row, i) => { g.fillStyle = i % 2 ? soft : ink; g.fillText((i % 2 ? '' : row.lane + ' ') + row.source, 4, row.y + ROW / 2, LEFT - 8); });
}
function zoom(x, factor) { const s = from + (x - LEFT) / width() * (to - from);
  const span = Math.min(Math.max((to - from) * factor, 1e-7), 4 * DATA.end); from = s - (s - from) / (to - from) * span; to = from + span; draw(); }
canvas.addEventListener('wheel', e => { e.preventDefault(); zoom(e.offsetX, e.deltaY > 0 ? 1.2 : 1 / 1.2); }, {passive: false});
let grip = null;
canvas.addEventListener('pointerdown', e => { grip = e.offsetX; canvas.setPointerCapture(e.pointerId); });
canvas.addEventListener('pointerup', () => { grip = null; });
canvas.addEventListener('dblclick', () => { from = -0.02 * DATA.end; to = DATA.end; draw(); });
canvas.addEventListener('pointermove', e => {
  if (grip !== null) { const s = (grip - e.offsetX) / width() * (to - from); from += s; to += s; grip = e.offsetX; draw(); return; }
  const row = rows.find(r => e.offsetY >= r.y && e.offsetY < r.y + ROW), s = from + (e.offsetX - LEFT) / width() * (to - from);
  const tier = tiers.find(t => e.offsetY >= t.y && e.offsetY < t.y + TIER);
  if (tier) { tip.textContent = `${tier.name} at ${time(s)}: ` + tier.curves.map((c, t) => `${bytes(live(c, s))} ${DATA.timelines[t].source}`).join(', '); return; }
  const bar = row && row.bars.find(b => b[1] <= s && s < b[2]);
  tip.textContent = bar ? `${DATA.ops[bar[0]][0]}: ${time(bar[2] - bar[1])} ${row.source}, at ${time(bar[1])}` : '';
});
document.getElementById('in').onclick = () => zoom(LEFT + width() / 2, 0.5);
document.getElementById('out').onclick = () => zoom(LEFT + width() / 2, 2);
window.addEventListener('resize', draw); draw();
</script>
)JS";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  return out;
}

/// JSON that may stand inside a script element: no "</script>", no "<!--".
std::string script_json(const json& value) {
  std::string out;
  for (const char c : value.dump(-1, ' ', true, json::error_handler_t::replace))
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  return out;
}

/// Ends of the last backward op in the steady steps: where steps meet.
std::vector<double> boundaries(const Schedule& schedule, const Timeline& timeline) {
  const int last = last_backward_op(schedule);
  std::vector<double> ends;
  for (const OpTime& time : timeline.ops)
    if (time.op == last && time.step >= timeline.first_step + timeline.warmup_steps) ends.push_back(time.end);
  return ends;
}

/// The part between two moments; its first point says what was live at `begin`.
std::vector<MemoryPoint> within(const std::vector<MemoryPoint>& curve, double begin, double end) {
  std::vector<MemoryPoint> part{{begin, curve.front().bytes}};
  for (const MemoryPoint& point : curve)
    if (point.seconds <= begin)
      part.front().bytes = point.bytes;
    else if (point.seconds < end)
      part.push_back(point);
  return part;
}

json timeline_json(const Schedule& schedule, const Timeline& timeline, double span) {
  const std::vector<double> ends = boundaries(schedule, timeline);
  const double origin = ends.empty() ? 0 : ends.front();
  const auto rounded = [&](double seconds) { return std::round((seconds - origin) * 1e8) / 1e8; };  // 10 ns
  std::vector<OpTime> shown;
  double last_end = origin;
  for (const OpTime& time : timeline.ops) {
    last_end = std::max(last_end, time.end);
    if (time.end > origin && time.start < origin + span) shown.push_back(time);
  }
  std::sort(shown.begin(), shown.end(),
            [](const OpTime& a, const OpTime& b) { return std::pair(a.start, a.end) < std::pair(b.start, b.end); });
  json bars = json::array(), marks = json::array();
  for (const OpTime& time : shown) bars.push_back({time.op, rounded(time.start), rounded(time.end)});
  for (const double end : ends)
    if (end <= origin + span) marks.push_back(rounded(end));
  json memory = json::array();
  for (const std::vector<MemoryPoint>& curve : memory_curves(schedule, timeline)) {
    json points = json::array();
    for (const MemoryPoint& point : thinned(within(curve, origin, origin + span), kMemoryPointsDrawn))
      points.push_back({rounded(point.seconds), point.bytes});
    memory.push_back(points);
  }
  return {{"source", timeline.source == TimelineSource::predicted ? "predicted" : "measured"},
          {"bars", bars},
          {"memory", memory},
          {"until", rounded(last_end)},
          {"boundaries", marks}};
}

std::string timelines(const Schedule& schedule, const Timeline& predicted, const Timeline& measured,
                      const Comparison& comparison) {
  const double period = std::max(comparison.step_seconds.predicted, comparison.step_seconds.measured);
  const int periods = schedule.ops.size() * kPeriodsDrawn <= kOpsDrawn ? kPeriodsDrawn : 1;
  const double span = period * periods;
  json ops = json::array(), lanes = json::array(), tiers = json::array();
  for (const Op& op : schedule.ops) ops.push_back({op.name, op.lane, static_cast<int>(op.phase)});
  for (const Lane& lane : schedule.lanes) lanes.push_back(lane.name);
  for (const Tier& tier : schedule.tiers) tiers.push_back(tier_names()[static_cast<std::size_t>(tier.kind)]);
  const json data = {
      {"lanes", lanes},
      {"tiers", tiers},
      {"ops", ops},
      {"end", span},
      {"timelines", {timeline_json(schedule, predicted, span), timeline_json(schedule, measured, span)}}};
  std::string html =
      "<h2>Timelines</h2>\n<p class=soft>Aligned at the end of a step's last backward op; wheel zooms, drag pans, "
      "double "
      "click resets. Beneath them the live bytes of each tier, predicted filled, measured as a line.</p>\n"
      "<p class=key><button id=in>+</button> <button id=out>&minus;</button>";
  for (const char* phase : {"forward", "loss", "backward", "optimizer"})
    html += fmt::format("<i style=\"background:var(--{0})\"></i>{0}", phase);
  html += "</p>\n<canvas id=lanes></canvas>\n<div id=tip></div>\n";
  html += "<script>const DATA = " + script_json(data) + ";</script>\n";
  return html + kScript;
}

std::string meter(double value, double whole, const char* kind) {
  const double percent = whole > 0 ? std::clamp(value / whole * 100, 0.0, 100.0) : 0;
  if (percent == 0) return "<div class=meter></div>";
  return fmt::format("<div class=meter><i class={} style=\"width:{:.2f}%\"></i></div>", kind, percent);
}

std::string seconds_row(const std::string& name, const Pair& pair, double step, bool part) {
  return fmt::format("<tr{}><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n", part ? " class=part" : "",
                     escaped(name), format_seconds(pair.predicted), format_seconds(pair.measured),
                     percent_text(pair.difference() / step));
}

std::string errors(const Schedule& schedule, const Comparison& comparison) {
  const double step = comparison.step_seconds.measured;
  std::string html =
      "<h2>Predicted, measured, error</h2>\n<p class=soft>Errors of times are signed shares of the measured step; "
      "those of "
      "bytes, of the measured bytes.</p>\n"
      "<table><tr><th></th><th>predicted</th><th>measured</th><th>error</th></tr>\n";
  html += seconds_row("step", comparison.step_seconds, step, false);
  html += seconds_row("stall", comparison.stall_seconds, step, false);
  for (const LaneComparison& lane : comparison.lanes)
    html += seconds_row("busy: " + lane.lane, lane.busy_seconds, step, false);
  for (std::size_t i = 0; i < comparison.phase_seconds.size(); ++i)
    html += seconds_row(fmt::format("compute in {}", phase_names()[i]), comparison.phase_seconds[i], step, false);
  for (const TierComparison& tier : comparison.tiers)
    html += fmt::format("<tr><td>peak bytes: {}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                        tier_names()[static_cast<std::size_t>(tier.tier)], format_bytes(tier.peak_bytes.predicted),
                        format_bytes(tier.peak_bytes.measured),
                        bytes_error_text(tier.peak_bytes.predicted, tier.peak_bytes.measured));
  html += "<tr><th>ops that contribute most</th><th></th><th></th><th></th></tr>\n";
  for (const OpError& error : comparison.worst_ops)
    html += seconds_row(schedule.ops[static_cast<std::size_t>(error.op)].name, error.seconds, step, true);
  return html + "</table>\n";
}

std::string stalls(const Comparison& comparison) {
  double largest = 0;
  for (const Pair& cause : comparison.stall_by_cause) largest = std::max({largest, cause.predicted, cause.measured});
  std::string html =
      "<h2>Why compute stood idle</h2>\n<p class=key>Seconds per step.<i style=\"background:var(--bar)\"></i>predicted"
      "<i style=\"background:var(--bar2)\"></i>measured</p>\n"
      "<table><tr><th>cause</th><th>predicted</th><th>measured</th><th></th></tr>\n";
  for (std::size_t i = 0; i < comparison.stall_by_cause.size(); ++i) {
    const Pair& cause = comparison.stall_by_cause[i];
    if (cause.predicted == 0 && cause.measured == 0) continue;
    html += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}{}</td></tr>\n",
                        escaped(stall_cause_name(static_cast<StallCause>(i))), format_seconds(cause.predicted),
                        format_seconds(cause.measured), meter(cause.predicted, largest, "p"),
                        meter(cause.measured, largest, "m"));
  }
  return html + "</table>\n";
}

std::string memory(const Schedule& schedule) {
  std::string html =
      "<h2>Memory by tier and phase</h2>\n<p class=soft>Live bytes of the schedule; the bar's whole width is the "
      "larger of capacity and "
      "arena.</p>\n<table>\n";
  for (const TierMemory& tier : schedule_memory(schedule)) {
    const double capacity = static_cast<double>(tier.tier.capacity_bytes);
    const double arena = static_cast<double>(tier.arena_bytes);
    html += fmt::format("<tr><th>{} {}</th><th>{}</th><th style=\"text-align:left\">arena, of {}</th></tr>\n",
                        tier_names()[static_cast<std::size_t>(tier.tier.kind)], tier.tier.device, format_bytes(arena),
                        format_bytes(capacity));
    for (int phase = 0; phase < kMemoryPhases; ++phase) {
      const double bytes = static_cast<double>(tier.phase_bytes[static_cast<std::size_t>(phase)]);
      html += fmt::format("<tr class=part><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                          escaped(memory_phase_name(static_cast<MemoryPhase>(phase))), format_bytes(bytes),
                          meter(bytes, std::max(capacity, arena), "p"));
    }
  }
  return html + "</table>\n";
}

}  // namespace

std::string report_html(const Schedule& schedule, const Timeline& predicted, const Timeline& measured,
                        const Comparison& comparison, const std::string& scenario_text) {
  const std::string title = fmt::format("Penstock: {} on {}", measured.scenario, measured.machine);
  std::string html =
      fmt::format("<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n<title>{}</title>\n{}</head><body>\n",
                  escaped(title), kStyle);
  html +=
      fmt::format("<h1>{}</h1>\n<p class=soft>{}, policy {}, micro-batches: {} of {} x {} tokens; schedule {}</p>\n",
                  escaped(title), escaped(schedule.model.name), escaped(schedule.policy), schedule.micro_batches,
                  schedule.micro_batch.sequences, schedule.micro_batch.sequence_length, schedule_hash(schedule));
  const auto tile = [&](const char* name, const std::string& value) {
    html += fmt::format("<div><b>{}</b>{}</div>", value, name);
  };
  html += "<div class=tiles>";
  tile("predicted step", format_seconds(comparison.step_seconds.predicted));
  tile("measured step", format_seconds(comparison.step_seconds.measured));
  tile("step error", fmt::format("{:.2f} %", comparison.step_error * 100));
  tile("stall error", fmt::format("{:.2f} %", comparison.stall_error * 100));
  tile(fmt::format("spread of {} measured periods", comparison.measured_periods).c_str(),
       fmt::format("{:.2f} %", comparison.measured_spread * 100));
  html += "</div>\n";
  html += timelines(schedule, predicted, measured, comparison);
  html += errors(schedule, comparison);
  html += stalls(comparison);
  html += memory(schedule);
  if (!scenario_text.empty()) html += "<h2>Scenario</h2>\n<pre>" + escaped(scenario_text) + "</pre>\n";
  return html + "</body></html>\n";
}

}  // namespace penstock
