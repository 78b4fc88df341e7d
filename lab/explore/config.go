package explore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"kelson.dev/operator/client"
	"kelson.dev/operator/operatortest/manifest"
)

// ConfigFile is the optional file in a project's folder that configures explorations.
const ConfigFile = "explore.yaml"

// config is the content of ConfigFile. Its fields are those of Scenario.
type config struct {
	// Definitions, Roles and Webhooks are paths that replace config/crd/bases, config/rbac and
	// config/webhook/manifests.yaml. Prepare are paths of objects that exist before the operator
	// starts.
	Definitions []string `json:"definitions"`
	Roles       []string `json:"roles"`
	Webhooks    []string `json:"webhooks"`
	Prepare     []string `json:"prepare"`
	// WebhookPort is Binary.WebhookPort, and Files is Binary.Files.
	WebhookPort int      `json:"webhookPort"`
	Files       []string `json:"files"`
	// Inputs replaces the creation of the samples.
	Inputs     []configInput     `json:"inputs"`
	Simulate   []configSimulated `json:"simulate"`
	Invariants []configInvariant `json:"invariants"`
	Ignore     []string          `json:"ignore"`
	Retained   []string          `json:"retained"`
	// WatchList is served or refused; see Scenario.
	WatchList  WatchList       `json:"watchList"`
	Quiet      metav1.Duration `json:"quiet"`
	Horizon    metav1.Duration `json:"horizon"`
	Reversible bool            `json:"reversible"`
	Keep       bool            `json:"keep"`
}

// configInput is one action of a user on the objects of a file or folder. Exactly one field is set.
type configInput struct {
	Create string          `json:"create"`
	Apply  string          `json:"apply"`
	Delete string          `json:"delete"`
	Flip   string          `json:"flip"`
	Fields string          `json:"fields"`
	Wait   metav1.Duration `json:"wait"`
	// History is a file or folder with a history, and Resources are the resources whose changes are
	// repeated.
	History   string   `json:"history"`
	Resources []string `json:"resources"`
	// Subresource is that to which apply or create sends the objects. Of is the apiVersion and kind
	// of the objects that have it, if it is created. As is the user.
	Subresource string `json:"subresource"`
	Of          string `json:"of"`
	As          string `json:"as"`
}

// configSimulated is a Simulated.
type configSimulated struct {
	Kind    string           `json:"kind"`
	When    string           `json:"when"`
	Status  map[string]any   `json:"status"`
	Creates []map[string]any `json:"creates"`
}

type configInvariant struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	Rule string `json:"rule"`
}

// configure applies the project's ConfigFile, if it exists, except for the settings of the control
// plane, and returns it.
func (s *Scenario) configure(dir string) (*config, error) {
	var c config
	data, err := os.ReadFile(filepath.Join(dir, ConfigFile))
	if errors.Is(err, os.ErrNotExist) {
		return &c, nil
	} else if err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", ConfigFile, err)
	}
	if err := c.WatchList.validate(); err != nil {
		return nil, fmt.Errorf("%s: watchList: %w", ConfigFile, err)
	}
	for _, paths := range [][]string{c.Definitions, c.Roles, c.Webhooks, c.Prepare} {
		for i, path := range paths {
			paths[i] = filepath.Join(dir, path)
		}
	}
	s.Retained, s.WatchList = c.Retained, c.WatchList
	s.Ignore, s.Quiet, s.Horizon, s.Reversible, s.Keep = c.Ignore, c.Quiet.Duration, c.Horizon.Duration, c.Reversible,
		c.Keep
	if c.WebhookPort != 0 {
		s.webhookPort = strconv.Itoa(c.WebhookPort)
	}
	s.files = c.Files
	for _, i := range c.Invariants {
		s.Invariants = append(s.Invariants, Invariant{Name: i.Name, Kind: i.Kind, Rule: i.Rule})
	}
	for _, r := range c.Simulate {
		s.Simulated = append(s.Simulated, Simulated{Kind: r.Kind, When: r.When, Status: r.Status, Creates: r.Creates})
	}
	for n, i := range c.Inputs {
		inputs, err := i.inputs(dir)
		if err != nil {
			return nil, fmt.Errorf("%s: inputs[%d]: %w", ConfigFile, n, err)
		}
		s.Inputs = append(s.Inputs, inputs...)
	}
	return &c, nil
}

// prepare returns a Scenario.Prepare that creates the objects in manifests; nil for none.
func prepare(paths []string) (func(context.Context, client.Client) error, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	manifests, err := manifest.Read(paths...)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c client.Client) error {
		for _, m := range manifests {
			if err := c.Create(ctx, m.Object.DeepCopy()); err != nil {
				return fmt.Errorf("%s: %w", m.File, err)
			}
		}
		return nil
	}, nil
}

// inputs returns the actions of an entry.
func (c configInput) inputs(dir string) ([]Input, error) {
	type action func(*unstructured.Unstructured) Input
	withObject := func(f func(client.Object) Input) action {
		return func(obj *unstructured.Unstructured) Input { return f(obj) }
	}
	var path string
	var act action
	set := 0
	for _, field := range []struct {
		path   string
		action action
	}{{c.Create, withObject(Create)}, {c.Apply, withObject(Apply)}, {c.Delete, withObject(Delete)}, {c.Flip, flipTo},
		{c.Fields, withObject(Fields)}} {
		if field.path != "" {
			path, act, set = field.path, field.action, set+1
		}
	}
	waits, recorded := c.Wait.Duration > 0, c.History != ""
	switch {
	case recorded != (len(c.Resources) > 0):
		return nil, errors.New("history needs resources, such as [shops.example.com], and only history has them")
	case (c.Subresource != "" || c.Of != "" || c.As != "") && (set != 1 || c.Of != "" && c.Subresource == ""):
		return nil, errors.New("as and subresource need one of create, apply, delete, flip and fields, and of needs subresource")
	case set == 1 && !waits && !recorded:
	case set == 0 && waits && !recorded:
		return []Input{Wait(c.Wait.Duration)}, nil
	case set == 0 && !waits && recorded:
		return Recorded(filepath.Join(dir, c.History), c.Resources...)
	default:
		return nil, errors.New("set one of create, apply, delete, flip, fields, wait and history")
	}
	manifests, err := manifest.Read(filepath.Join(dir, path))
	if err != nil {
		return nil, err
	}
	var inputs []Input
	for _, m := range manifests {
		input := act(m.Object)
		if c.Subresource != "" {
			if input, err = c.onSubresource(m.Object); err != nil {
				return nil, err
			}
		}
		if c.As != "" {
			input = input.As(c.As)
		}
		inputs = append(inputs, input)
	}
	return inputs, nil
}
