package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The kinds of the project. Each has a spec with all types of fields, and embeds a pod template as
// an example of Kubernetes' deeply nested types.
var kinds = []string{"Frigate", "Sloop", "Ketch"}

const goMod = `module example.com/harbour

go 1.26.0

require (
	k8s.io/api v0.37.2
	k8s.io/apimachinery v0.37.2
)
`

const groupFile = `// Package v1 is the harbour's API.
// +kubebuilder:object:generate=true
// +groupName=harbour.example.com
package v1
`

const kindFile = `package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KINDSpec is the desired state, edition 0.
type KINDSpec struct {
	// replicas is the number of pods.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=1
	// +optional
	Replicas *int32 ` + "`json:\"replicas,omitempty\"`" + `

	// image is the image of the pods.
	// +kubebuilder:validation:MinLength=1
	Image string ` + "`json:\"image\"`" + `

	// template is the template of the pods.
	// +optional
	Template corev1.PodTemplateSpec ` + "`json:\"template,omitempty\"`" + `

	// settings maps names to values.
	// +optional
	Settings map[string]string ` + "`json:\"settings,omitempty\"`" + `
}

// KINDStatus is the observed state.
type KINDStatus struct {
	// conditions describe the ship.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition ` + "`json:\"conditions,omitempty\"`" + `
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Image,type=string,JSONPath=` + "`.spec.image`" + `

// KIND is a ship.
type KIND struct {
	metav1.TypeMeta   ` + "`json:\",inline\"`" + `
	metav1.ObjectMeta ` + "`json:\"metadata,omitempty\"`" + `

	Spec   KINDSpec   ` + "`json:\"spec,omitempty\"`" + `
	Status KINDStatus ` + "`json:\"status,omitempty\"`" + `
}

// +kubebuilder:object:root=true

// KINDList is a list of KIND objects.
type KINDList struct {
	metav1.TypeMeta ` + "`json:\",inline\"`" + `
	metav1.ListMeta ` + "`json:\"metadata,omitempty\"`" + `
	Items           []KIND ` + "`json:\"items\"`" + `
}
`

const controllerFile = `package controller

// +kubebuilder:rbac:groups=harbour.example.com,resources=KINDs,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=harbour.example.com,resources=KINDs/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update;patch;delete
`

// writeProject writes the project to a directory. sums are the lines of go.sum.
func writeProject(dir string, sums []byte) error {
	files := map[string]string{"go.mod": goMod, "go.sum": string(sums), "api/v1/doc.go": groupFile,
		"config/crd/bases/.keep": ""}
	for _, k := range kinds {
		lower := strings.ToLower(k)
		files["api/v1/"+lower+"_types.go"] = strings.ReplaceAll(kindFile, "KIND", k)
		files["internal/controller/"+lower+".go"] = strings.ReplaceAll(controllerFile, "KIND", lower)
	}
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// edit changes the documentation of one type, and returns the text that the definition must then
// contain.
func edit(dir string, n int) (want string, err error) {
	name := filepath.Join(dir, "api/v1", strings.ToLower(kinds[0])+"_types.go")
	text := strings.ReplaceAll(kindFile, "KIND", kinds[0])
	want = fmt.Sprintf("edition %d.", n)
	return want, os.WriteFile(name, []byte(strings.Replace(text, "edition 0.", want, 1)), 0o644)
}
