package vet

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity is the severity of a finding.
type Severity string

const (
	// Error means that an API server rejects the object, or that a change breaks objects or
	// clients.
	Error Severity = "error"
	// Warning means that an API server accepts the object, but there may be a problem.
	Warning Severity = "warning"
)

// Finding is one problem.
type Finding struct {
	Severity Severity `json:"severity"`
	// File and Line are the position. Line counts from 1; 0 means unknown.
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	// Object is the kind and name of the object, as in "Deployment web/front".
	Object string `json:"object,omitempty"`
	// Path is the path of the field, as in spec.replicas. It may be empty.
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
}

// String formats the finding as compilers format errors.
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

// Report is the result of all checks.
type Report struct {
	Findings []Finding `json:"findings"`
	Rules    []Rule    `json:"rules,omitempty"`
	// Objects is the number of objects that were checked.
	Objects int `json:"objects"`
}

// Add adds findings.
func (r *Report) Add(findings ...Finding) { r.Findings = append(r.Findings, findings...) }

// Sort sorts the findings by position. It is stable.
func (r *Report) Sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
}

// Count returns the number of findings of a severity.
func (r *Report) Count(s Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}
