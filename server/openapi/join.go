package openapi

import (
	"bytes"
	"maps"
	"slices"
)

// joinJSON puts the v2 document together as text.
func (d *documents) joinJSON(show func(string) bool) (*document, error) {
	head, err := d.archive.plain("v2/head.json")
	if err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(head)
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
	for _, path := range slices.Sorted(maps.Keys(d.archive.paths("v2/paths/", ".json"))) {
		if show(path) {
			data, err := d.archive.plain("v2/paths/" + path + ".json")
			if err != nil {
				return nil, err
			}
			members(data)
		}
	}
	fragments := d.fragments()
	for _, f := range fragments {
		members(f.paths)
	}
	for _, section := range []struct {
		name string
		of   func(*fragment) []byte
	}{
		{"definitions", func(f *fragment) []byte { return f.definitions }},
		{"parameters", func(f *fragment) []byte { return f.parameters }},
	} {
		out.WriteString(`},"` + section.name + `":{`)
		first = true
		data, err := d.archive.plain("v2/" + section.name + ".json")
		if err != nil {
			return nil, err
		}
		members(data)
		for _, f := range fragments {
			members(section.of(f))
		}
	}
	out.WriteString("}}")
	return newDocument(out.Bytes()), nil
}

// joinProto puts the v2 document together as protobuf: messages that follow each other are merged by whoever reads them.
func (d *documents) joinProto(show func(string) bool) (*document, error) {
	out, err := d.archive.plain("v2/base.pb")
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
	for _, f := range d.fragments() {
		data, err := f.proto()
		if err != nil {
			continue // one bad definition must not hide all the others
		}
		out = append(out, data...)
	}
	return newDocument(out), nil
}

// fragments are those of all custom kinds, by path. What cannot be described is left out.
func (d *documents) fragments() []*fragment {
	var out []*fragment
	for _, path := range slices.Sorted(maps.Keys(d.custom)) {
		if f, err := d.custom[path].v2(); err == nil {
			out = append(out, f)
		}
	}
	return out
}
