package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// markdown writes the page of a complete run.
func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Where Kelson differs from kube-apiserver

Written by %[1]smake differential%[1]s: kube-apiserver 1.37.1 with etcd 3.7 and the drop-in %[1]skelson kube-apiserver%[1]s were started with the same settings and sent
the same requests, and their answers were compared: code, headers, body. The requests are made from the peer's discovery, from one sample of
each kind, from the schemas of all kinds and from a seed: all verbs, encodings, patches and options, right and wrong, on built-in and custom
kinds; objects invented by their schemas; Services of both families of addresses; watches; discovery and OpenAPI documents. Uids and resource versions must stand for each other and keep their order; times must have the same form.

%[2]d streams of requests, %[3]d requests to each side, %[4]s.

`, "`", r.streams, r.requests, r.took.Round(time.Second))
	b.WriteString("## What is known to differ, and why\n\n| differences | why |\n|--:|---|\n")
	for _, a := range r.allowed {
		if a.matched > 0 {
			fmt.Fprintf(&b, "| %d | %s |\n", a.matched, a.why)
		}
	}
	if len(r.groups) == 0 {
		b.WriteString("\nNothing else differed.\n")
		return b.String()
	}
	byStream := map[string][2]int{}
	for _, g := range r.groups {
		for name, n := range g.streams {
			have := byStream[name]
			byStream[name] = [2]int{have[0] + n, have[1] + 1}
		}
	}
	var names []string
	total := 0
	for name, n := range byStream {
		names = append(names, name)
		total += n[0]
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(byStream[b][0], byStream[a][0]), cmp.Compare(a, b)) })
	fmt.Fprintf(&b, "\n## What else differed\n\nNot looked into yet, or not mended yet: %d differences of %d sorts. One cause often shows in many requests after it.\n\n", total, len(r.groups))
	b.WriteString("| stream | differences | sorts |\n|---|--:|--:|\n")
	for _, name := range names {
		fmt.Fprintf(&b, "| %s | %d | %d |\n", name, byStream[name][0], byStream[name][1])
	}
	return b.String()
}

// writeDocs replaces the page.
func (r *report) writeDocs(file string) error {
	if err := os.WriteFile(file, []byte(r.markdown()), 0o644); err != nil {
		return fmt.Errorf("write docs: %w", err)
	}
	return nil
}
