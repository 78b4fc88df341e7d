package explore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

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
	// config/webhook/manifests.yaml. Prepare are objects that exist before the operator starts.
	Definitions []string        `json:"definitions"`
	Roles       []string        `json:"roles"`
	Webhooks    []string        `json:"webhooks"`
	Prepare     []configObjects `json:"prepare"`
	// WebhookPort is Binary.WebhookPort, and Files is Binary.Files. Args and Env come before those
	// of a Binary.
	WebhookPort int               `json:"webhookPort"`
	Files       []string          `json:"files"`
	Args        []string          `json:"args"`
	Env         map[string]string `json:"env"`
	// Operators are other operators that run, too; see Scenario.OtherFolders.
	Operators []configOperator `json:"operators"`
	// Former is the folder of the former version of the project; see Scenario.FormerFolder.
	Former string `json:"former"`
	// Inputs replaces the creation of the samples.
	Inputs     []configInput     `json:"inputs"`
	Simulate   []configSimulated `json:"simulate"`
	Services   []configService   `json:"services"`
	Invariants []configInvariant `json:"invariants"`
	Ignore     []string          `json:"ignore"`
	Retained   []string          `json:"retained"`
	Failing    []string          `json:"failing"`
	// WatchList is served or refused; see Scenario.
	WatchList  WatchList       `json:"watchList"`
	Quiet      metav1.Duration `json:"quiet"`
	Horizon    metav1.Duration `json:"horizon"`
	Lag        metav1.Duration `json:"lag"`
	Reversible bool            `json:"reversible"`
	Keep       bool            `json:"keep"`
}

// configInput is one action of a user on objects. Exactly one field is set.
type configInput struct {
	Create configObjects   `json:"create"`
	Apply  configObjects   `json:"apply"`
	Delete configObjects   `json:"delete"`
	Flip   configObjects   `json:"flip"`
	Fields configObjects   `json:"fields"`
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
	// Together makes these inputs follow the input before at once.
	Together bool `json:"together"`
}

// configObjects is the path of a file or folder with objects, or an object itself.
type configObjects struct {
	path   string
	object *unstructured.Unstructured // nil for a path
}

// UnmarshalJSON decodes a path or an object.
func (o *configObjects) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		if err := json.Unmarshal(data, &o.path); err != nil {
			return errors.New("want the path of a manifest, or an object")
		}
		return nil
	}
	o.object = &unstructured.Unstructured{}
	if err := json.Unmarshal(data, &o.object.Object); err != nil {
		return err
	}
	if o.object.GetAPIVersion() == "" || o.object.GetKind() == "" || o.object.GetName() == "" {
		return errors.New("want an object with apiVersion, kind and metadata.name")
	}
	return nil
}

func (o configObjects) empty() bool { return o.path == "" && o.object == nil }

// read returns the objects. Paths are relative to a folder.
func (o configObjects) read(dir string) ([]manifest.Manifest, error) {
	if o.object != nil {
		return []manifest.Manifest{{File: ConfigFile, Object: o.object}}, nil
	}
	return manifest.Read(filepath.Join(dir, o.path))
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

// configOperator is another operator.
type configOperator struct {
	Name   string            `json:"name"`
	Folder string            `json:"folder"`
	Args   []string          `json:"args"`
	Env    map[string]string `json:"env"`
}

// readConfig reads the ConfigFile of a project, if it exists. The paths of manifests in it become
// relative to the working directory.
func readConfig(dir string) (*config, error) {
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
	for _, paths := range [][]string{c.Definitions, c.Roles, c.Webhooks} {
		for i, path := range paths {
			paths[i] = filepath.Join(dir, path)
		}
	}
	return &c, nil
}

// definitions returns the files and folders with the definitions of the project in a folder, and
// whether its ConfigFile names them.
func (c *config) definitions(dir string) (paths []string, named bool) {
	if len(c.Definitions) > 0 {
		return c.Definitions, true
	}
	return []string{filepath.Join(dir, "config", "crd", "bases")}, false
}

// configure applies the project's ConfigFile, if it exists, except for the settings of the control
// plane, and returns it.
func (s *Scenario) configure(dir string) (*config, error) {
	c, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	s.Retained, s.Failing, s.WatchList = c.Retained, c.Failing, c.WatchList
	s.Ignore, s.Quiet, s.Horizon, s.Lag = c.Ignore, c.Quiet.Duration, c.Horizon.Duration, c.Lag.Duration
	s.Reversible, s.Keep = c.Reversible, c.Keep
	if c.WebhookPort != 0 {
		s.webhookPort = strconv.Itoa(c.WebhookPort)
	}
	s.files, s.args, s.former = c.Files, c.Args, c.Former
	if s.former != "" && !filepath.IsAbs(s.former) {
		s.former = filepath.Join(dir, s.former)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if name == "" || strings.Contains(name, "=") {
			return nil, fmt.Errorf("%s: env: %q is not the name of a variable", ConfigFile, name)
		}
		s.env = append(s.env, name+"="+c.Env[name])
	}
	if s.Services, err = services(dir, c.Services); err != nil {
		return nil, err
	}
	for n, o := range c.Operators {
		if o.Name == "" || o.Folder == "" {
			return nil, fmt.Errorf("%s: operators[%d]: want a name and the folder of a project", ConfigFile, n)
		}
		other := OtherFolder{Name: o.Name, Folder: o.Folder, Args: o.Args}
		if !filepath.IsAbs(o.Folder) {
			other.Folder = filepath.Join(dir, o.Folder)
		}
		for _, name := range slices.Sorted(maps.Keys(o.Env)) {
			other.Env = append(other.Env, name+"="+o.Env[name])
		}
		s.folders = append(s.folders, other)
	}
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
		for k := range inputs {
			inputs[k].together = i.Together
		}
		s.Inputs = append(s.Inputs, inputs...)
	}
	return c, nil
}

// prepare returns a Scenario.Prepare that creates objects; nil for none.
func prepare(dir string, all []configObjects) (func(context.Context, client.Client) error, error) {
	if len(all) == 0 {
		return nil, nil
	}
	var manifests []manifest.Manifest
	for _, objects := range all {
		read, err := objects.read(dir)
		if err != nil {
			return nil, err
		}
		manifests = append(manifests, read...)
	}
	return func(ctx context.Context, c client.Client) error {
		for _, m := range manifests {
			obj := m.Object.DeepCopy()
			err := c.Create(ctx, obj)
			if errors.Is(err, client.ErrNoNamespace) { // as for inputs
				obj.SetNamespace(metav1.NamespaceDefault)
				err = c.Create(ctx, obj)
			}
			if err != nil {
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
	var objects configObjects
	var act action
	set := 0
	for _, field := range []struct {
		objects configObjects
		action  action
	}{{c.Create, withObject(Create)}, {c.Apply, withObject(Apply)}, {c.Delete, withObject(Delete)}, {c.Flip, flipTo},
		{c.Fields, withObject(Fields)}} {
		if !field.objects.empty() {
			objects, act, set = field.objects, field.action, set+1
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
	manifests, err := objects.read(dir)
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
