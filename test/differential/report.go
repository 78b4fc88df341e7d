package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// report groups the differences of a run.
type report struct {
	groups    []*group
	allowed   []*allowance
	unmatched []*allowance // in a complete run
	streams   int
	requests  int
	took      time.Duration
}

// group has differences with the same label and place and the same two values.
type group struct {
	key     string
	first   []difference
	streams map[string]int
	count   int
}

func newReport(all []difference, opts options, streams, requests int, took time.Duration) *report {
	r := &report{allowed: allowances(), streams: streams, requests: requests, took: took}
	groups := map[string]*group{}
	for _, d := range all {
		if allowed(&d, r.allowed) || !opts.label.MatchString(d.label) {
			continue
		}
		key := d.where + "\n" + generalize(d.stream, d.peer) + "\n" + generalize(d.stream, d.kelson)
		g := groups[key]
		if g == nil {
			g = &group{key: key, streams: map[string]int{}}
			groups[key] = g
			r.groups = append(r.groups, g)
		}
		if g.count++; len(g.first) < opts.examples {
			g.first = append(g.first, d)
		}
		g.streams[d.stream]++
	}
	slices.SortStableFunc(r.groups, func(a, b *group) int {
		return cmp.Or(cmp.Compare(len(b.streams), len(a.streams)), cmp.Compare(b.count, a.count))
	})
	for _, a := range r.allowed {
		if a.matched == 0 && !a.chance {
			r.unmatched = append(r.unmatched, a)
		}
	}
	return r
}

func allowed(d *difference, list []*allowance) bool {
	for _, a := range list {
		if a.matches(d) {
			a.matched++
			return true
		}
	}
	return false
}

// reason is the reason for accepted differences, with their number.
type reason struct {
	why   string
	count int
}

// known returns the reasons of the accepted differences of the run. Several entries of allowed.go
// can have one reason.
func (r *report) known() (all []reason) {
	for _, a := range r.allowed {
		switch i := slices.IndexFunc(all, func(k reason) bool { return k.why == a.why }); {
		case a.matched == 0:
		case i < 0:
			all = append(all, reason{a.why, a.matched})
		default:
			all[i].count += a.matched
		}
	}
	return all
}

// generalize removes the names of one kind from a text, so that the same difference is counted
// together for all kinds.
func generalize(stream, text string) string {
	parts := strings.Split(stream, "/")
	resource := parts[len(parts)-1]
	text = strings.ReplaceAll(text, resource, "RESOURCE")
	if len(parts) == 3 {
		text = strings.ReplaceAll(text, "RESOURCE."+parts[0], "RESOURCE")
		text = strings.ReplaceAll(text, parts[0]+"/"+parts[1], "APIVERSION")
		text = strings.ReplaceAll(text, parts[0], "GROUP")
	}
	return text
}

// write writes all groups to a file.
func (r *report) write(file string) error {
	var b strings.Builder
	for _, g := range r.groups {
		fmt.Fprintf(&b, "== %d times in %d streams: %s\n", g.count, len(g.streams), g.first[0].where)
		for _, d := range g.first {
			fmt.Fprintf(&b, "   %s of %s, step %d, %s\n   peer:   %s\n   kelson: %s\n   %s\n", d.stream, d.round,
				d.step, d.label, d.peer, d.kelson, strings.ReplaceAll(d.request, "\n", "\n   "))
		}
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

// finish returns the result of the run.
func (r *report) finish(opts options) error {
	file := filepath.Join(opts.work, "report.txt")
	if err := r.write(file); err != nil {
		return err
	}
	if opts.docs != "" {
		if err := r.writeDocs(opts.docs); err != nil {
			return err
		}
	}
	total := 0
	for _, g := range r.groups {
		total += g.count
	}
	fmt.Printf("%d streams, %d requests to each side in %s: %d differences of %d sorts\n", r.streams, r.requests,
		r.took.Round(time.Second), total, len(r.groups))
	for _, k := range r.known() {
		fmt.Printf("%7d known: %s\n", k.count, k.why)
	}
	for _, g := range r.groups[:min(len(r.groups), 40)] {
		d := g.first[0]
		fmt.Printf("%7d in %d streams: %s of %s %q %s\n\tpeer:   %.200s\n\tkelson: %.200s\n", g.count, len(g.streams),
			d.stream, d.round, d.label, d.where, d.peer, d.kelson)
	}
	whole := opts.run.String()+opts.label.String() == ""
	switch {
	case len(r.groups) > 0:
		return fmt.Errorf("%d differences, all in %s", total, file)
	case whole && len(r.unmatched) > 0:
		var errs []error
		for _, a := range r.unmatched {
			errs = append(errs, fmt.Errorf("allowed.go: no difference matches any longer: %s", a.why))
		}
		return errors.Join(errs...)
	}
	return nil
}
