package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/pprof/profile"
)

// mergeProfiles merges the CPU profiles in a folder into one for the compiler, without file names.
func mergeProfiles(folder, to string) error {
	names, err := filepath.Glob(filepath.Join(folder, "*.pprof"))
	if err != nil {
		return err
	}
	var all []*profile.Profile
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		p, err := profile.ParseData(data)
		if err != nil {
			return fmt.Errorf("parse %s: %w", name, err)
		}
		if p.PeriodType != nil && p.PeriodType.Type == "cpu" { // not a heap profile
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return fmt.Errorf("no CPU profiles in %s", folder)
	}
	p, err := profile.Merge(all)
	if err != nil {
		return fmt.Errorf("merge the profiles in %s: %w", folder, err)
	}
	p.TimeNanos, p.DurationNanos = 0, 0
	for _, m := range p.Mapping {
		m.File, m.BuildID = "", ""
	}
	for _, f := range p.Function {
		f.Filename = "" // the compiler uses only names and lines
	}
	for _, l := range p.Location {
		l.Address = 0
	}
	// merge locations that differ only in addresses
	if p, err = profile.Merge([]*profile.Profile{p}); err != nil {
		return err
	}
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		return err
	}
	return os.WriteFile(to, out.Bytes(), 0o644)
}
