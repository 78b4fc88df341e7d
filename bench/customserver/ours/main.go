// Command ours serves the Flunders of k8s.io/sample-apiserver with kelson.dev/apiserver.
package main

import (
	"kelson.dev/apiserver"

	"k8s.io/sample-apiserver/pkg/apis/wardle/v1alpha1"
)

func main() {
	apiserver.Main(apiserver.Group("wardle.example.com", apiserver.Kind(&v1alpha1.Flunder{})))
}
