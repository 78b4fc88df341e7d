// Package yamledit adds entries to lists in YAML files and removes them. It keeps all other text.
//
//	src, err = yamledit.AddItem(src, "resources", "bases/webapp_welcomes.yaml")
//
// Items are strings, or a key with its value: "path: patches/a.yaml". Lines of a source end with
// LF.
package yamledit

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// AddItem appends an item to the list below a key of the document. It adds the key if the key is
// missing. It changes nothing if the list has the item.
func AddItem(src []byte, key, item string) ([]byte, error) {
	list, err := find(src, key)
	if err != nil {
		return nil, err
	}
	lines := strings.SplitAfter(string(src), "\n")
	switch {
	case list == nil:
		text := string(src)
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return []byte(text + key + ":\n- " + item + "\n"), nil
	case slices.ContainsFunc(list.Content, func(n *yaml.Node) bool { return textOf(n) == item }):
		return src, nil
	case list.Kind != yaml.SequenceNode || list.Style&yaml.FlowStyle != 0:
		return nil, fmt.Errorf("%s is not a list with a line for each item", key)
	}
	last := list.Content[len(list.Content)-1]
	if !strings.HasSuffix(lines[last.Line-1], "\n") {
		lines[last.Line-1] += "\n"
	}
	indent := lines[last.Line-1][:strings.Index(lines[last.Line-1], "-")]
	return []byte(strings.Join(slices.Insert(lines, last.Line, indent+"- "+item+"\n"), "")), nil
}

// RemoveItem removes an item from the list below a key, if it exists, and the key with its last
// item.
func RemoveItem(src []byte, key, item string) ([]byte, error) {
	list, err := find(src, key)
	if err != nil || list == nil {
		return src, err
	}
	lines := strings.SplitAfter(string(src), "\n")
	for _, n := range list.Content {
		if textOf(n) != item {
			continue
		}
		lines = slices.Delete(lines, n.Line-1, n.Line)
		if len(list.Content) == 1 {
			lines = slices.DeleteFunc(lines, func(l string) bool { return strings.TrimRight(l, " \n") == key+":" })
		}
		return []byte(strings.Join(lines, "")), nil
	}
	return src, nil
}

// textOf returns an item as text: a string, or a key with its value.
func textOf(n *yaml.Node) string {
	if n.Kind == yaml.MappingNode && len(n.Content) == 2 {
		return n.Content[0].Value + ": " + n.Content[1].Value
	}
	return n.Value
}

// find returns the list below a key of the first document, or nil.
func find(src []byte, key string) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil {
		return nil, err
	}
	if doc.Kind == 0 || len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, nil
	}
	top := doc.Content[0].Content
	for i := 0; i+1 < len(top); i += 2 {
		if top[i].Value == key {
			return top[i+1], nil
		}
	}
	return nil, nil
}
