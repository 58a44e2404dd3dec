// The look of every page: one style sheet, no fonts or pictures from elsewhere.
#include "hyperion/report/html.h"

namespace hyperion::report {

const char* page_style() {
  return R"(
:root{--ground:#f6f7f9;--sheet:#fff;--ink:#1b1f24;--soft:#5b6470;--rule:#e3e6ea;--accent:#0072b2;--ok:#0a7d5a;
--bad:#c2410c;--ok-ground:#e6f5ef;--bad-ground:#fdece3;
--shadow:0 1px 2px rgba(20,30,45,.05),0 4px 16px rgba(20,30,45,.04)}
@media (prefers-color-scheme:dark){:root{--ground:#0f1216;--sheet:#171b21;--ink:#e7ebf0;--soft:#9aa5b1;--rule:#2a3038;
--accent:#58b4f0;--ok:#4fd1a5;--bad:#ff9d66;--ok-ground:#12312a;--bad-ground:#3a2117;--shadow:none}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--ground);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:1120px;margin:0 auto;padding:40px 24px 72px}
header{margin-bottom:28px}
.brand{margin:0 0 6px;font-size:13px;font-weight:600;letter-spacing:.08em;text-transform:uppercase;color:var(--accent)}
h1{margin:0;font-size:clamp(26px,4vw,36px);line-height:1.2;letter-spacing:-.015em;overflow-wrap:anywhere}
.lead{margin:8px 0 0;color:var(--soft);font-size:17px;max-width:70ch;overflow-wrap:anywhere}
h2{margin:44px 0 14px;font-size:20px;letter-spacing:-.005em}
p{max-width:75ch}
dl,dd,figure{margin:0}
.card,.plots figure,.scroll,.facts,.sample{background:var(--sheet);border:1px solid var(--rule);border-radius:12px;
box-shadow:var(--shadow)}
.muted{color:var(--soft)}
.mono,code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.9em}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(220px,100%),1fr));gap:14px}
.card{padding:16px 18px 14px}
.card dt{font-size:13px;color:var(--soft)}
.card .value{font-size:28px;font-weight:640;line-height:1.25;letter-spacing:-.02em;font-variant-numeric:tabular-nums;
overflow-wrap:anywhere}
.card .note{font-size:13px;color:var(--soft)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(440px,100%),1fr));gap:16px}
.plots figure{padding:8px;min-width:0}
.plots .wide{grid-column:1/-1}
.plots .narrow{display:none}
@media (max-width:760px){.plots .wide{display:none}.plots .narrow{display:block}}
.plots svg{display:block;margin:0 auto;width:100%;height:auto}
.scroll{overflow-x:auto}
.scroll svg{display:block}
h3{margin:22px 0 10px;font-size:16px}
.links{display:flex;flex-wrap:wrap;gap:6px 16px;font-size:14.5px}
a{color:var(--accent)}
.ranked{max-width:85ch;padding-left:24px}
.ranked li{margin:6px 0}
table{border-collapse:collapse;width:100%;font-size:14.5px}
th{font-size:13px;font-weight:600;color:var(--soft);text-align:left;white-space:nowrap}
th,td{padding:8px 16px;border-bottom:1px solid var(--rule);vertical-align:top}
tbody tr:last-child td{border-bottom:0}
.number{text-align:right;width:1%;font-variant-numeric:tabular-nums;white-space:nowrap}
td.mono{overflow-wrap:anywhere}
tr.group th{padding-top:16px;color:var(--ink);font-size:14px}
tr.default td{color:var(--soft)}
details{margin-top:14px}
summary{cursor:pointer;color:var(--soft);font-size:14.5px;margin-bottom:10px}
.state{margin:0 0 20px;padding:12px 18px;border-left:3px solid var(--accent);background:var(--sheet);
overflow-wrap:anywhere}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(320px,100%),1fr));gap:0 32px;padding:8px 18px}
.facts div{display:grid;grid-template-columns:104px 1fr;gap:12px;padding:7px 0;font-size:14.5px}
.facts dt{color:var(--soft)}
.facts dd{overflow-wrap:anywhere;min-width:0}
.samples{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(300px,100%),1fr));gap:12px}
.sample{padding:12px 16px}
.pictures{display:grid;grid-template-columns:repeat(auto-fill,minmax(120px,1fr));gap:12px}
.picture{margin:0;font-size:13px}
.picture img{width:100%;image-rendering:pixelated;border-radius:8px;display:block;margin-bottom:4px}
.sample p{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}
.sample .question{color:var(--soft);font-size:14px}
.sample .answer{display:flex;gap:10px;align-items:baseline;justify-content:space-between;margin-top:2px}
.sample .answer p{font-size:17px;font-weight:600}
.sample .expected{margin-top:4px;font-size:13px;color:var(--soft)}
.badge{flex:none;font-size:12px;font-weight:600;line-height:1;padding:5px 9px;border-radius:999px;
background:var(--rule);color:var(--soft)}
.badge.right{background:var(--ok-ground);color:var(--ok)}
.badge.wrong{background:var(--bad-ground);color:var(--bad)}
@media (max-width:560px){main{padding:28px 14px 56px}th,td{padding:8px 12px}.card .value{font-size:24px}}
@media print{body{background:#fff}.card,.plots figure,.scroll,.facts,.sample{break-inside:avoid;box-shadow:none}}
)";
}

}  // namespace hyperion::report
