package vet

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity says what a finding means.
type Severity string

const (
	// Error is what an API server would refuse, or what breaks objects or clients.
	Error Severity = "error"
	// Warning is what an API server would accept, but somebody may regret.
	Warning Severity = "warning"
)

// Finding is one thing that was found.
type Finding struct {
	Severity Severity `json:"severity"`
	// File and Line are where; Line counts from 1, and is 0 where the place is not known.
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	// Object is kind and name of the object, as in "Deployment web/front".
	Object string `json:"object,omitempty"`
	// Path of the field, as in spec.replicas; it may be empty.
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
}

// String is a line as compilers write them.
func (f Finding) String() string {
	s := f.File
	if f.Line > 0 {
		s = fmt.Sprintf("%s:%d", s, f.Line)
	}
	s += ": "
	if f.Severity != Error {
		s += string(f.Severity) + ": "
	}
	if f.Object != "" {
		s += f.Object + ": "
	}
	if f.Path != "" {
		s += f.Path + ": "
	}
	return s + f.Message
}

// Report is what was found in all.
type Report struct {
	Findings []Finding `json:"findings"`
	Rules    []Rule    `json:"rules,omitempty"`
	// Objects counts what was looked at.
	Objects int `json:"objects"`
}

// Add adds findings.
func (r *Report) Add(findings ...Finding) { r.Findings = append(r.Findings, findings...) }

// Sort orders the findings by their places, and what they say of one by the order in which it was found.
func (r *Report) Sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
}

// Count counts the findings of a severity.
func (r *Report) Count(s Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}
