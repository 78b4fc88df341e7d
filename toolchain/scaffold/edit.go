package scaffold

import (
	"errors"
	"slices"
)

// SetMultiGroup sets whether the project may have kinds of several API groups, which get a folder
// per group. Existing kinds are not moved.
func SetMultiGroup(dir string, multi bool) ([]Change, error) {
	w, err := open(dir)
	if err != nil {
		return nil, err
	}
	p := w.project
	if !multi && slices.ContainsFunc(p.Resources, func(r Resource) bool { return r.API && p.inGroup(&r) }) {
		return nil, errors.New("--multigroup=false: the project has kinds in folders per group")
	}
	p.MultiGroup = multi
	return w.commit()
}
