package main

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"strings"
)

const pageStyle = `body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1c2530}
h1,h2{font-weight:600}h2{margin-top:2.5rem;border-top:1px solid #d5dbe1;padding-top:1rem}
svg{margin:.3rem 1rem .3rem 0;vertical-align:top}text{font:12px system-ui,sans-serif;fill:#1c2530}
pre{background:#f3f5f7;padding:.8rem;overflow:auto;font-size:12.5px}table{border-collapse:collapse}td,th{padding:.15rem .6rem;border:1px solid #d5dbe1;text-align:left}`

// The colours of weir's bars and of its peers'.
const (
	colourWeir = "#0f766e"
	colourPeer = "#b45309"
)

const (
	plotWidth  = 460
	barHeight  = 20
	labelWidth = 170
	valueWidth = 90
)

// writeHTML writes the report as one page that needs nothing else.
func writeHTML(w io.Writer, found []*result) {
	fmt.Fprintf(w, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>weir: results</title><style>%s</style></head><body>\n", pageStyle)
	m := found[0].Machine
	fmt.Fprintf(w, "<h1>weir beside its peers</h1>\n<p>%s, %d cores, %.0f GB, %s.<br>%s</p>\n", html.EscapeString(m.CPU), m.Cores, m.MemoryGB,
		html.EscapeString(m.Kernel), html.EscapeString(strings.Join(trimAll(m.Versions), ", ")))
	if note := shortNote(found); note != "" {
		fmt.Fprintf(w, "<p><strong>%s</strong></p>\n", html.EscapeString(note))
	}
	fmt.Fprintln(w, "<p>Bars are medians of the rounds, the thin line is their range.</p>")
	for _, r := range found {
		fmt.Fprintf(w, "<h2>%s</h2>\n<p>%s</p>\n", html.EscapeString(r.Name+" ("+r.Set+")"), html.EscapeString(r.Title))
		for _, f := range r.figures() {
			writePlot(w, r, f)
		}
		var text bytes.Buffer
		writeScenario(&text, r)
		fmt.Fprintf(w, "<details><summary>all figures</summary><pre>%s</pre></details>\n", html.EscapeString(strings.TrimSpace(text.String())))
	}
	fmt.Fprintln(w, "</body></html>")
}

// writePlot draws one figure: a bar per side.
func writePlot(w io.Writer, r *result, f figure) {
	widest := 0.0
	for _, sd := range r.Sides {
		if v := r.values(sd.Name, f.Key); len(v) > 0 {
			widest = max(widest, v[len(v)-1])
		}
	}
	if widest <= 0 {
		return
	}
	better := "lower is better"
	if f.Higher {
		better = "higher is better"
	}
	fmt.Fprintf(w, `<svg width="%d" height="%d" role="img"><text x="0" y="14" font-weight="600">%s, %s (%s)</text>`, plotWidth, (len(r.Sides)+1)*barHeight+6,
		html.EscapeString(f.Label), html.EscapeString(f.Unit), better)
	scale := (plotWidth - labelWidth - valueWidth) / widest
	for i, sd := range r.Sides {
		y := (i + 1) * barHeight
		fmt.Fprintf(w, `<text x="0" y="%d">%s</text>`, y+15, html.EscapeString(sd.Name))
		v := r.values(sd.Name, f.Key)
		if len(v) == 0 {
			fmt.Fprintf(w, `<text x="%d" y="%d">not run</text>`, labelWidth, y+15)
			continue
		}
		colour := colourPeer
		if sd.Kind == kindWeir {
			colour = colourWeir
		}
		mid := median(v)
		fmt.Fprintf(w, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, labelWidth, y+3, max(1, mid*scale), barHeight-6, colour)
		fmt.Fprintf(w, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#1c2530"/>`, labelWidth+v[0]*scale, labelWidth+v[len(v)-1]*scale, y+barHeight/2, y+barHeight/2)
		fmt.Fprintf(w, `<text x="%.1f" y="%d">%s</text>`, labelWidth+max(mid, v[len(v)-1])*scale+6, y+15, number(mid))
	}
	fmt.Fprintln(w, "</svg>")
}
