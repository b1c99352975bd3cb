#!/bin/sh
# Draws each NAME.txt of this folder as NAME.svg. `draw.sh NAME` prints one.
#
#   size WIDTH HEIGHT
#   title | TEXT                                 read aloud in place of the picture
#   box ID X Y WIDTH HEIGHT STYLE | TITLE | LINE | ...     STYLE: plain, main, outside or group
#   arrow FROM TO | LABEL | LINE | ...           between the sides of two boxes that face each other
set -eu
cd "$(dirname "$0")"

draw() {
  awk '
function text(x, y, class, anchor, what) {
  printf "  <text x=\"%g\" y=\"%g\" class=\"%s\" text-anchor=\"%s\">%s</text>\n", x, y, class, anchor, what
}
function trim(what) { gsub(/^ +| +$/, "", what); gsub(/&/, "\\&amp;", what); gsub(/</, "\\&lt;", what); return what }
function max(a, b) { return a > b ? a : b }
function min(a, b) { return a < b ? a : b }
BEGIN { FS = "|" }
/^ *(#|$)/ { next }
{ split($1, words, " "); kind = words[1] }
kind == "size" { width = words[2]; height = words[3] }
kind == "title" {
  printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\">\n", width, height
  printf "  <title>%s</title>\n", trim($2)
  print "  <style>"
  print "    text { font: 13px system-ui, sans-serif; fill: #1f2328 }"
  print "    .name { font-weight: 600; font-size: 14px } .label { font-size: 12px; fill: #57606a }"
  print "    rect { fill: #f6f8fa; stroke: #8c959f; rx: 6px } .main { fill: #ddf4ff; stroke: #0969da }"
  print "    .outside { stroke-dasharray: 4 3 } .group { fill: none; stroke-dasharray: 2 3 }"
  print "    line { stroke: #57606a; stroke-width: 1.5 } marker path { fill: #57606a }"
  print "    @media (prefers-color-scheme: dark) {"
  print "      text { fill: #e6edf3 } .label { fill: #9198a1 } rect { fill: #161b22; stroke: #6e7681 }"
  print "      .main { fill: #0c2d6b; stroke: #388bfd } .group { fill: none } line { stroke: #9198a1 } marker path { fill: #9198a1 }"
  print "    }"
  print "  </style>"
  print "  <defs><marker id=\"end\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">" \
    "<path d=\"M0 0L8 4L0 8z\"/></marker></defs>"
}
kind == "box" {
  id = words[2]; X[id] = words[3]; Y[id] = words[4]; W[id] = words[5]; H[id] = words[6]
  printf "  <rect class=\"%s\" x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\"/>\n", words[7], X[id], Y[id], W[id], H[id]
  if (words[7] == "group") { text(X[id] + 10, Y[id] + 18, "label", "start", trim($2)); next }
  y = Y[id] + H[id] / 2 + 5 - (NF - 2) * 9
  for (n = 2; n <= NF; n++) { text(X[id] + W[id] / 2, y, n == 2 ? "name" : "line", "middle", trim($n)); y += 18 }
}
kind == "arrow" {
  a = words[2]; b = words[3]
  top = max(Y[a], Y[b]); bottom = min(Y[a] + H[a], Y[b] + H[b])
  left = max(X[a], X[b]); right = min(X[a] + W[a], X[b] + W[b])
  if (top < bottom) {
    y1 = y2 = (top + bottom) / 2
    if (X[a] < X[b]) { x1 = X[a] + W[a]; x2 = X[b] } else { x1 = X[a]; x2 = X[b] + W[b] }
    x = (x1 + x2) / 2; y = y1 - 7 - (NF - 2) * 15; anchor = "middle"
  } else {
    x1 = x2 = (left + right) / 2
    if (Y[a] < Y[b]) { y1 = Y[a] + H[a]; y2 = Y[b] } else { y1 = Y[a]; y2 = Y[b] + H[b] }
    x = x1 + 8; y = (y1 + y2) / 2 + 4 - (NF - 2) * 7; anchor = "start"
  }
  printf "  <line x1=\"%g\" y1=\"%g\" x2=\"%g\" y2=\"%g\" marker-end=\"url(#end)\"/>\n", x1, y1, x2, y2
  for (n = 2; n <= NF; n++) { text(x, y, "label", anchor, trim($n)); y += 15 }
}
END { print "</svg>" }' "$1.txt"
}

if [ $# -gt 0 ]; then
  draw "$1"
else
  for file in *.txt; do
    draw "${file%.txt}" >"${file%.txt}.svg"
  done
fi
