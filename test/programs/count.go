package main

import (
	"fmt"
	"io"
	"strings"
)

// counted says how many test programs packages have.
type counted struct {
	programs   []string // import paths of the packages
	kubernetes []string // those that link packages of k8s.io/kubernetes
	onlyTests  []string // those that do so only because of imports of tests
}

// count lists the test programs of the packages that match.
func count(patterns []string) (counted, error) {
	const format = `{{.ImportPath}}{{range .Deps}} {{.}}{{end}}`
	out, err := goList("-test", "-f="+format, patterns)
	if err != nil {
		return counted{}, err
	}
	var c counted
	links := map[string]bool{}
	for line := range strings.Lines(out) {
		path, deps, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if strings.HasPrefix(deps, "[") {
			continue // a package as compiled for a test
		}
		links[path] = strings.Contains(" "+deps, " k8s.io/kubernetes/")
	}
	for line := range strings.Lines(out) {
		path, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		tested, ok := strings.CutSuffix(path, ".test")
		if !ok {
			continue
		}
		c.programs = append(c.programs, tested)
		if links[path] {
			c.kubernetes = append(c.kubernetes, tested)
			if !links[tested] {
				c.onlyTests = append(c.onlyTests, tested)
			}
		}
	}
	return c, nil
}

// printCount prints the numbers, and which programs link Kubernetes.
func printCount(patterns []string, stdout io.Writer) error {
	c, err := count(patterns)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "test programs: %d\nwith packages of k8s.io/kubernetes: %d\nonly because of tests: %d\n",
		len(c.programs), len(c.kubernetes), len(c.onlyTests))
	only := map[string]bool{}
	for _, path := range c.onlyTests {
		only[path] = true
	}
	for _, path := range c.kubernetes {
		if only[path] {
			path += " (tests)"
		}
		fmt.Fprintln(stdout, path)
	}
	return nil
}
