package openapi

import (
	"encoding/json"
	"fmt"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
)

// base is the part of the v2 document that does not depend on custom kinds.
type base struct {
	head                    []byte // JSON up to the first path
	definitions, parameters []byte // without the braces of the JSON objects
	proto                   []byte // all fields except paths
}

// newBase reads the base from the packed documents. Without them it holds only the title and
// version.
func (h *Handler) newBase(a *archive) (*base, error) {
	if a.packed == "" {
		return bareBase(h.title, h.version)
	}
	b := &base{}
	for _, entry := range []struct {
		name string
		into *[]byte
	}{{"v2/head.json", &b.head}, {"v2/definitions.json", &b.definitions}, {"v2/parameters.json", &b.parameters},
		{"v2/base.pb", &b.proto}} {
		data, err := a.plain(entry.name)
		if err != nil {
			return nil, err
		}
		*entry.into = data
	}
	return b, nil
}

func bareBase(title, version string) (*base, error) {
	info, err := json.Marshal(map[string]string{"title": title, "version": version})
	if err != nil {
		return nil, fmt.Errorf("encode title of OpenAPI document: %w", err)
	}
	doc, err := proto.Marshal(&openapiv2.Document{Swagger: "2.0",
		Info: &openapiv2.Info{Title: title, Version: version}})
	if err != nil {
		return nil, fmt.Errorf("encode title of OpenAPI document: %w", err)
	}
	return &base{head: fmt.Appendf(nil, `{"swagger":"2.0","info":%s,"paths":{`, info), proto: doc}, nil
}
