package openapi

import (
	"bytes"
	"maps"
	"slices"
)

// joinJSON joins the v2 document as JSON.
func (d *documents) joinJSON(show func(string) bool) (*document, error) {
	base, err := d.base()
	if err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(slices.Clone(base.head))
	first := true
	members := func(data []byte) {
		if len(data) == 0 {
			return
		}
		if !first {
			out.WriteByte(',')
		}
		first = false
		out.Write(data)
	}
	paths, err := d.paths(show)
	if err != nil {
		return nil, err
	}
	for _, data := range paths {
		members(data)
	}
	fragments, err := d.fragments(base)
	if err != nil {
		return nil, err
	}
	definitions, _, err := reachable(base.definitions, referring(paths, fragments))
	if err != nil {
		return nil, err
	}
	for _, f := range fragments {
		members(f.paths)
	}
	for _, section := range []struct {
		name   string
		base   []byte
		custom func(*fragment) []byte
	}{
		{"definitions", definitions, func(f *fragment) []byte { return f.definitions }},
		{"parameters", base.parameters, func(f *fragment) []byte { return f.parameters }},
	} {
		out.WriteString(`},"` + section.name + `":{`)
		first = true
		members(section.base)
		for _, f := range fragments {
			members(section.custom(f))
		}
	}
	out.WriteString("}}")
	return newDocument(out.Bytes()), nil
}

// joinProto joins the v2 document as protobuf. Decoders merge consecutive messages.
func (d *documents) joinProto(show func(string) bool) (*document, error) {
	base, err := d.base()
	if err != nil {
		return nil, err
	}
	paths, err := d.paths(show)
	if err != nil {
		return nil, err
	}
	fragments, err := d.fragments(base)
	if err != nil {
		return nil, err
	}
	_, names, err := reachable(base.definitions, referring(paths, fragments))
	if err != nil {
		return nil, err
	}
	out, err := onlyDefinitions(base.proto, names)
	if err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(d.archive.paths("v2/paths/", ".pb"))) {
		if show(path) {
			data, err := d.archive.plain("v2/paths/" + path + ".pb")
			if err != nil {
				return nil, err
			}
			out = append(out, data...)
		}
	}
	for _, f := range fragments {
		data, err := f.proto()
		if err != nil {
			continue // one invalid definition must not hide the others
		}
		out = append(out, data...)
	}
	return newDocument(out), nil
}

// paths returns the packed paths that are shown, as members of a JSON object.
func (d *documents) paths(show func(string) bool) ([][]byte, error) {
	var all [][]byte
	for _, path := range slices.Sorted(maps.Keys(d.archive.paths("v2/paths/", ".json"))) {
		if show(path) {
			data, err := d.archive.plain("v2/paths/" + path + ".json")
			if err != nil {
				return nil, err
			}
			all = append(all, data)
		}
	}
	return all, nil
}

// referring returns the parts of a document that can refer to packed definitions.
func referring(paths [][]byte, fragments []*fragment) [][]byte {
	parts := slices.Clone(paths)
	for _, f := range fragments {
		parts = append(parts, f.paths, f.definitions)
	}
	return parts
}

// fragments returns the fragments of all custom kinds, followed by those of other servers, sorted
// by path. Kinds that cannot be described are omitted.
func (d *documents) fragments(base *base) ([]*fragment, error) {
	var out []*fragment
	for _, path := range slices.Sorted(maps.Keys(d.custom)) {
		if f, err := d.custom[path].v2(); err == nil {
			out = append(out, f)
		}
	}
	others, err := d.otherFragments(base, out)
	return append(out, others...), err
}
