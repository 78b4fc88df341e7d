package objects

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"kelson.dev/console/internal/cluster"
	"kelson.dev/console/internal/web"
)

// Field is the documentation of a field, from the OpenAPI document of its kind.
type Field struct {
	Path        string          `json:"path"`
	Type        string          `json:"type,omitempty"` // such as integer, or []object
	Description string          `json:"description,omitempty"`
	Required    bool            `json:"required,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
	Enum        []any           `json:"enum,omitempty"`
	// Rules are the constraints, such as "minimum: 1", and CEL rules.
	Rules []string `json:"rules,omitempty"`
	// Fields are the names and types of the fields of an object.
	Fields []Field `json:"fields,omitempty"`
}

// schema is the part of an OpenAPI schema that documents fields.
type schema struct {
	Ref                  string             `json:"$ref"`
	AllOf                []schema           `json:"allOf"`
	Type                 string             `json:"type"`
	Format               string             `json:"format"`
	Description          string             `json:"description"`
	Default              json.RawMessage    `json:"default"`
	Enum                 []any              `json:"enum"`
	Required             []string           `json:"required"`
	Properties           map[string]*schema `json:"properties"`
	Items                *schema            `json:"items"`
	AdditionalProperties json.RawMessage    `json:"additionalProperties"` // a boolean or a schema
	Minimum              *float64           `json:"minimum"`
	Maximum              *float64           `json:"maximum"`
	MinLength            *int               `json:"minLength"`
	MaxLength            *int               `json:"maxLength"`
	MinItems             *int               `json:"minItems"`
	MaxItems             *int               `json:"maxItems"`
	Pattern              string             `json:"pattern"`
	IntOrString          bool               `json:"x-kubernetes-int-or-string"`
	Rules                []struct {
		Rule    string `json:"rule"`
		Message string `json:"message"`
	} `json:"x-kubernetes-validations"`
	Kinds []struct {
		Group   string `json:"group"`
		Version string `json:"version"`
		Kind    string `json:"kind"`
	} `json:"x-kubernetes-group-version-kind"`
}

// document is an OpenAPI document of a group and version.
type document struct {
	Components struct {
		Schemas map[string]*schema `json:"schemas"`
	} `json:"components"`
	read time.Time
}

// documentAge is how long a document is used before it is read again, because the schemas of custom
// resources change.
const documentAge = 30 * time.Second

// documents caches documents by path. The zero value is empty.
type documents struct {
	mu   sync.Mutex
	read map[string]*document
}

func (d *documents) get(ctx context.Context, c *cluster.Cluster, kind cluster.Kind) (*document, error) {
	path := "/openapi/v3/apis/" + kind.Group + "/" + kind.Version
	if kind.Group == "" {
		path = "/openapi/v3/api/" + kind.Version
	}
	d.mu.Lock()
	known := d.read[path]
	d.mu.Unlock()
	if known != nil && time.Since(known.read) < documentAge {
		return known, nil
	}
	doc := &document{read: time.Now()}
	if err := c.Get(ctx, cluster.Request{Path: path}, doc); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.read == nil {
		d.read = map[string]*document{}
	}
	d.read[path] = doc
	return doc, nil
}

// field returns the documentation of the field that the parameter path names, as in
// .spec.containers[0].image. Keys with characters other than letters are quoted, as in
// .metadata.labels["a/b"].
func (s *Server) field(r *http.Request) (any, error) {
	q := r.URL.Query()
	kind, err := s.Cluster.Kind(q.Get("resource"))
	if err != nil {
		return nil, err
	}
	doc, err := s.documents.get(r.Context(), s.Cluster, kind)
	if err != nil {
		return nil, err
	}
	path := []string{}
	if err := json.Unmarshal([]byte(q.Get("path")), &path); err != nil {
		return nil, web.Errorf(http.StatusBadRequest, "path: must be a list of names in JSON: %v", err)
	}
	at, required := doc.find(kind), false
	for i, name := range path {
		if at == nil {
			break
		}
		at = doc.resolve(at)
		required = slices.Contains(at.Required, name)
		if at = doc.child(at, name); at == nil {
			return nil, web.Errorf(http.StatusNotFound, "the schema of %s does not document %s", kind.Kind,
				strings.Join(path[:i+1], "."))
		}
	}
	if at == nil {
		return nil, web.Errorf(http.StatusNotFound, "the server has no schema of %s", kind.Kind)
	}
	f := doc.describe(at)
	f.Path, f.Required = strings.Join(path, "."), required
	resolved := doc.resolve(at)
	if resolved.Items != nil {
		resolved = doc.resolve(resolved.Items)
	}
	for name, p := range resolved.Properties {
		f.Fields = append(f.Fields, Field{Path: name, Type: doc.typeOf(p),
			Required: slices.Contains(resolved.Required, name)})
	}
	slices.SortFunc(f.Fields, func(a, b Field) int { return cmp.Compare(a.Path, b.Path) })
	return f, nil
}

// find returns the schema of a kind; nil if there is none.
func (d *document) find(kind cluster.Kind) *schema {
	for _, s := range d.Components.Schemas {
		for _, k := range s.Kinds {
			if k.Group == kind.Group && k.Version == kind.Version && k.Kind == kind.Kind {
				return s
			}
		}
	}
	return nil
}

// resolve follows references. The description next to a reference to a schema is more specific than
// that of the schema.
func (d *document) resolve(s *schema) *schema {
	result := *s
	for range 8 { // a bound, although references of a valid document do not form cycles
		next := s.Ref
		if next == "" && len(s.AllOf) == 1 && s.Type == "" {
			next = s.AllOf[0].Ref
		}
		target := d.Components.Schemas[strings.TrimPrefix(next, "#/components/schemas/")]
		if next == "" || target == nil {
			break
		}
		s = target
		description, standard := result.Description, result.Default
		result = *s
		if description != "" {
			result.Description = description
		}
		if standard != nil {
			result.Default = standard
		}
	}
	return &result
}

// child returns the schema of a property, an item or a value of a map; nil if there is none.
func (d *document) child(s *schema, name string) *schema {
	if s.Items != nil {
		return s.Items
	}
	if p := s.Properties[name]; p != nil {
		return p
	}
	return values(s)
}

// values returns the schema of the values of a map; nil if s is not one.
func values(s *schema) *schema {
	v := &schema{}
	if !bytes.HasPrefix(bytes.TrimSpace(s.AdditionalProperties), []byte("{")) ||
		json.Unmarshal(s.AdditionalProperties, v) != nil {
		return nil
	}
	return v
}

func (d *document) typeOf(s *schema) string {
	s = d.resolve(s)
	switch {
	case s.IntOrString:
		return "integer or string"
	case s.Items != nil:
		return "[]" + d.typeOf(s.Items)
	case values(s) != nil:
		return "map of " + d.typeOf(values(s))
	case s.Format != "" && s.Type != "":
		return s.Type + " (" + s.Format + ")"
	}
	return s.Type
}

func (d *document) describe(s *schema) Field {
	r := d.resolve(s)
	f := Field{Type: d.typeOf(s), Description: r.Description, Enum: r.Enum, Default: r.Default}
	rule := func(name string, value any, set bool) {
		if text, err := json.Marshal(value); set && err == nil {
			f.Rules = append(f.Rules, name+": "+string(text))
		}
	}
	rule("minimum", r.Minimum, r.Minimum != nil)
	rule("maximum", r.Maximum, r.Maximum != nil)
	rule("minLength", r.MinLength, r.MinLength != nil)
	rule("maxLength", r.MaxLength, r.MaxLength != nil)
	rule("minItems", r.MinItems, r.MinItems != nil)
	rule("maxItems", r.MaxItems, r.MaxItems != nil)
	rule("pattern", r.Pattern, r.Pattern != "")
	for _, v := range r.Rules {
		f.Rules = append(f.Rules, strings.TrimSuffix(v.Rule+" – "+v.Message, " – "))
	}
	return f
}
