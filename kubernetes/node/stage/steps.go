package stage

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/types"
)

// Action is one thing to do to an object. Exactly one of Event, Delete and Data is set.
type Action struct {
	Event  *Event
	Delete bool

	// Data is a patch of the object, or, with Other, another object to create or change.
	Data        []byte
	Type        types.PatchType
	Subresource string
	Other       bool
	// User is the user to write as; "" means the controller's own.
	User string
}

// step is a compiled Step.
type step struct {
	Step
	patch, apply         *template.Template
	patchType, applyType types.PatchType // patchType is "" for the default of the kind
}

func compileStep(s Step) (_ step, err error) {
	c := step{Step: s}
	if s.Patch != nil {
		switch kind := value(s.Patch.Type); kind {
		case "":
		case "json":
			c.patchType = types.JSONPatchType
		case "merge":
			c.patchType = types.MergePatchType
		case "strategic":
			c.patchType = types.StrategicMergePatchType
		default:
			return c, fmt.Errorf("patch type %q: must be json, merge or strategic", kind)
		}
		if c.patch, err = parseTemplate(s.Patch.Template); err != nil {
			return c, err
		}
	}
	if s.Apply != nil {
		switch kind := value(s.Apply.Type); kind {
		case "", "apply":
			c.applyType = types.ApplyPatchType
		case "merge":
			c.applyType = types.MergePatchType
		case "strategic":
			c.applyType = types.StrategicMergePatchType
		default:
			return c, fmt.Errorf("apply type %q: must be apply, merge or strategic", kind)
		}
		if c.apply, err = parseTemplate(s.Apply.Template); err != nil {
			return c, err
		}
	}
	if s.Event != nil && s.Event.Type != "" && s.Event.Type != "Normal" && s.Event.Type != "Warning" {
		return c, fmt.Errorf("event type %q: must be Normal or Warning", s.Event.Type)
	}
	return c, nil
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Actions returns what the Stage does to an object, in order. Templates see the object as it is
// now, not as earlier actions change it.
func (p *Program) Actions(o *Object, cluster Functions) ([]Action, error) {
	var actions []Action
	deleted := false
	for i, s := range p.steps {
		if s.Event != nil {
			actions = append(actions, Action{Event: s.Event})
		}
		if deleted {
			continue
		}
		if s.Finalizers != nil {
			if operations := s.Finalizers.operations(o.GetFinalizers()); len(operations) > 0 {
				data, err := json.Marshal(operations)
				if err != nil {
					return nil, err
				}
				actions = append(actions, Action{Data: data, Type: types.JSONPatchType})
			}
		}
		if s.Delete {
			deleted = true
			actions = append(actions, Action{Delete: true})
			continue
		}
		more, err := s.writes(o, cluster)
		if err != nil {
			return nil, fmt.Errorf("stage %q: step %d: %s", p.Name, i+1, oneLine(err))
		}
		actions = append(actions, more...)
	}
	return actions, nil
}

// writes returns the patch and the apply of a step.
func (s *step) writes(o *Object, cluster Functions) (actions []Action, err error) {
	if s.patch != nil {
		a := Action{Type: s.patchType, Subresource: s.Patch.Subresource, User: s.Patch.Impersonation.user()}
		if a.Type == "" {
			a.Type = types.MergePatchType
			if o.typed() {
				a.Type = types.StrategicMergePatchType
			}
		}
		if a.Data, err = render(s.patch, o, cluster); err != nil {
			return nil, err
		}
		if a.Data, err = below(s.Patch.Root, a.Data, a.Type); err != nil {
			return nil, err
		}
		actions = append(actions, a)
	}
	if s.apply != nil {
		a := Action{Other: true, Type: s.applyType, Subresource: s.Apply.Subresource,
			User: s.Apply.Impersonation.user()}
		if a.Data, err = render(s.apply, o, cluster); err != nil {
			return nil, err
		}
		actions = append(actions, a)
	}
	return actions, nil
}

func (i *Impersonation) user() string {
	if i == nil {
		return ""
	}
	return i.Username
}

// operation is an operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
	From  string `json:"from,omitempty"`
}

// below returns a patch of the field root that has the effect of data on its value.
func below(root string, data []byte, kind types.PatchType) ([]byte, error) {
	if root == "" {
		return data, nil
	}
	if kind != types.JSONPatchType {
		return json.Marshal(map[string]json.RawMessage{root: data})
	}
	var operations []map[string]any
	if err := json.Unmarshal(data, &operations); err != nil {
		return nil, fmt.Errorf("JSON patch: %w", err)
	}
	for _, o := range operations {
		path, ok := o["path"].(string)
		if !ok {
			return nil, errors.New("JSON patch: an operation has no path")
		}
		o["path"] = "/" + strings.Trim(root, "/") + path
	}
	return json.Marshal(operations)
}

// operations returns the JSON patch that changes finalizers. Removals come from the end, so that
// the positions of the others do not change.
func (f *Finalizers) operations(current []string) (operations []operation) {
	const all = "/metadata/finalizers"
	names := func(list []Finalizer) (names []string) {
		for _, item := range list {
			names = append(names, item.Value)
		}
		return names
	}
	remove, add := names(f.Remove), names(f.Add)
	kept := slices.DeleteFunc(slices.Clone(current), func(name string) bool {
		return f.Empty || slices.Contains(remove, name)
	})
	if len(kept) == 0 && len(current) > 0 && (f.Empty || len(remove) > 0) {
		operations = append(operations, operation{Op: "remove", Path: all})
	} else {
		for i := len(current) - 1; i >= 0; i-- {
			if slices.Contains(remove, current[i]) {
				operations = append(operations, operation{Op: "remove", Path: all + "/" + strconv.Itoa(i)})
			}
		}
	}
	if len(add) > 0 && len(kept) == 0 {
		return append(operations, operation{Op: "add", Path: all, Value: add})
	}
	for _, name := range add {
		if !slices.Contains(kept, name) {
			operations = append(operations, operation{Op: "add", Path: all + "/-", Value: name})
		}
	}
	return operations
}
