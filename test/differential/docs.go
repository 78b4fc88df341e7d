package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"kelson.dev/kubernetes/linked"
)

// markdown writes the page of a complete run.
func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Where Kelson differs from kube-apiserver

Written by %[1]smake differential%[1]s: kube-apiserver %[5]s with etcd 3.7 and the drop-in %[1]skelson kube-apiserver%[1]s started with the same settings
and received the same requests, and their responses were compared: code, headers and body. The requests are generated from the peer's discovery, from one sample of
each kind, from the schemas of all kinds and from a seed: all verbs, encodings, patches and options, valid and invalid, on built-in and custom
kinds; objects generated from their schemas; Services of both address families; watches; discovery and OpenAPI documents. What admission webhooks receive is compared, too, and the writes of the namespace controller and the garbage
collector, with those of kube-controller-manager. UIDs and resource versions must correspond and have the same order; times must have the same form.

%[2]d streams of requests, %[3]d requests to each side, %[4]s.

`, "`", r.streams, r.requests, r.took.Round(time.Second), linked.Kubernetes)
	b.WriteString("## Known differences, and why\n\n| differences | why |\n|--:|---|\n")
	for _, k := range r.known() {
		fmt.Fprintf(&b, "| %d | %s |\n", k.count, k.why)
	}
	if len(r.groups) == 0 {
		b.WriteString("\nThere were no other differences.\n")
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
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(byStream[b][0], byStream[a][0]), cmp.Compare(a, b))
	})
	fmt.Fprintf(&b, "\n## Other differences\n\nNot examined or not fixed yet: %d differences of %d kinds. One cause often affects many later requests.\n\n", total, len(r.groups))
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
