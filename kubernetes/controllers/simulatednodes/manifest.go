package simulatednodes

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Load reads the Nodes in a file of manifests, YAML or JSON, as groups of one node each.
func Load(file string) ([]Group, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var groups []Group
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if blank(document) {
			continue
		}
		n := &corev1.Node{}
		if err := yaml.UnmarshalStrict(document, n); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if n.APIVersion != "v1" || n.Kind != "Node" {
			return nil, fmt.Errorf("%s: %s %s: want Nodes of v1", file, n.APIVersion, n.Kind)
		}
		groups = append(groups, Group{Node: n})
	}
	if len(groups) == 0 {
		return nil, fmt.Errorf("%s: contains no Node", file)
	}
	if _, err := Nodes(groups...); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return groups, nil
}

// blank reports whether a YAML document contains only comments and white space.
func blank(document []byte) bool {
	var content any
	return yaml.Unmarshal(document, &content) == nil && content == nil
}
