package stage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"
)

// Functions are the template functions that need the cluster. NodeIP, NodeName, NodePort and PodIP
// take no arguments. NodeIPWith and NodeIPsWith take a node's name. PodIPWith and PodIPsWith take a
// node's name, whether the pod uses the host's network, and the pod's uid, name and namespace.
// Functions can also replace others, such as Now.
type Functions = template.FuncMap

// ofCluster are the functions that a caller must provide.
var ofCluster = []string{"NodeIP", "NodeName", "NodePort", "NodeIPWith", "NodeIPsWith", "PodIP", "PodIPWith",
	"PodIPsWith"}

// Version is the result of the function Version.
const Version = "kelson"

var started = sync.OnceValue(func() string { return time.Now().Format(time.RFC3339Nano) })

// functions are the functions that need no cluster, and placeholders for those in ofCluster.
var functions = sync.OnceValue(func() template.FuncMap {
	all := sprig.TxtFuncMap()
	for _, unsafe := range []string{"env", "expandenv", "getHostByName"} {
		delete(all, unsafe) // Stages come from users of the cluster
	}
	maps.Copy(all, template.FuncMap{
		"Quote":          quote,
		"Now":            func() string { return time.Now().Format(time.RFC3339Nano) },
		"StartTime":      started,
		"YAML":           toYAML,
		"Version":        func() string { return Version },
		"NodeConditions": func() any { return nodeConditions },
	})
	for _, name := range ofCluster {
		all[name] = func(...any) (any, error) { return nil, fmt.Errorf("%s is not available here", name) }
	}
	return all
})

// quote returns a value as a string of JSON, and so of YAML.
func quote(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return strconv.Quote(fmt.Sprint(value))
	}
	if len(data) > 0 && data[0] == '"' {
		return string(data)
	}
	return strconv.Quote(string(data))
}

// toYAML returns a value as YAML. If it is indented, it begins on a new line.
func toYAML(value any, indent ...int) (string, error) {
	data, err := yaml.Marshal(value)
	if err != nil {
		return "", err
	}
	if len(indent) != 1 || indent[0] <= 0 {
		return string(data), nil
	}
	return strings.ReplaceAll("\n"+string(data), "\n", "\n"+strings.Repeat("  ", indent[0])), nil
}

// nodeConditions are the conditions of a healthy node, as a kubelet and the route controller of a
// cloud report them.
var nodeConditions = []any{
	nodeCondition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
	nodeCondition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
	nodeCondition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
	nodeCondition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
	nodeCondition("NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"),
}

func nodeCondition(kind, status, reason, message string) any {
	return map[string]any{"type": kind, "status": status, "reason": reason, "message": message}
}

func parseTemplate(text string) (*template.Template, error) {
	t, err := template.New("template").Funcs(functions()).Parse(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	return t, nil
}

// render executes a template, whose result is YAML, and returns the result as JSON.
func render(t *template.Template, o *Object, cluster Functions) ([]byte, error) {
	t, err := t.Clone() // so that functions of other objects do not change
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Funcs(cluster).Execute(&out, o.numbered); err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	data, err := yaml.YAMLToJSON(out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("result of the template: %s", oneLine(err))
	}
	return data, nil
}

// oneLine returns an error's text on one line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
