package attributes

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Recorded is the status of a request of Requests, with the calls of webhooks that it caused.
type Recorded struct {
	Request string   `json:"request"` // its name
	Status  int      `json:"status"`
	Calls   []string `json:"calls,omitempty"` // the attributes, and the webhooks that received them
}

// Record returns the record of a request. Calls of several webhooks with the same attributes are
// one line.
func Record(request, own string, status int, calls []Call) Recorded {
	r := Recorded{Request: request, Status: status}
	hooks := map[string][]string{}
	var lines []string
	for _, call := range calls {
		line := call.Line(own)
		if hooks[line] == nil {
			lines = append(lines, line)
		}
		hooks[line] = append(hooks[line], call.Path)
	}
	for _, line := range lines {
		r.Calls = append(r.Calls, strings.Join(hooks[line], ",")+" "+line)
	}
	return r
}

// recording is the content of kube-apiserver.json.
type recording struct {
	Server  string     `json:"server"`  // that was recorded
	Command string     `json:"command"` // that wrote the file
	Records []Recorded `json:"records"`
}

//go:embed kube-apiserver.json
var recorded []byte

// OfKubeAPIServer returns the records of kube-apiserver by the names of requests.
func OfKubeAPIServer() (map[string]Recorded, error) {
	var list recording
	if err := json.Unmarshal(recorded, &list); err != nil {
		return nil, fmt.Errorf("kube-apiserver.json: %w", err)
	}
	all := map[string]Recorded{}
	for _, r := range list.Records {
		all[r.Request] = r
	}
	return all, nil
}

// Write writes the records of a server, such as "kube-apiserver v1.37.2", to a file.
func Write(file, server string, records []Recorded) error {
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(recording{Server: server, Command: "make differential", Records: records}); err != nil {
		return fmt.Errorf("encode records: %w", err)
	}
	if err := os.WriteFile(file, data.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write records: %w", err)
	}
	return nil
}
