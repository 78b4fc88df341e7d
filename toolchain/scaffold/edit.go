package scaffold

import (
	"errors"
	"slices"
)

// SetMultiGroup says whether the project may have kinds of several API groups, which then have folders by group. Kinds that are there stay
// where they are.
func SetMultiGroup(dir string, multi bool) ([]Change, error) {
	w, err := open(dir)
	if err != nil {
		return nil, err
	}
	p := w.project
	if !multi && slices.ContainsFunc(p.Resources, func(r Resource) bool { return r.API && p.inGroup(&r) }) {
		return nil, errors.New("--multigroup=false: there are kinds in folders of their groups")
	}
	p.MultiGroup = multi
	return w.commit()
}
