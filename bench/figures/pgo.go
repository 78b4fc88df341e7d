package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/pprof/profile"
)

// mergeProfiles makes one profile, for the compiler, of the processor profiles in a folder. It says nothing of where they were made.
func mergeProfiles(folder, to string) error {
	var all []*profile.Profile
	err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".pprof") {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		p, err := profile.ParseData(data)
		if err != nil {
			return fmt.Errorf("parse %s: %w", name, err)
		}
		if p.PeriodType != nil && p.PeriodType.Type == "cpu" {
			all = append(all, p)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("there are no processor profiles in %s", folder)
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
		f.Filename = "" // the compiler goes by names and lines
	}
	for _, l := range p.Location {
		l.Address = 0
	}
	if p, err = profile.Merge([]*profile.Profile{p}); err != nil { // what was told apart by addresses alone is one now
		return err
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	if err = p.Write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
