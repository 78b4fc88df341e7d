// Command cnat runs commands at the times that At objects name.
package main

import (
	"kelson.dev/operator"

	"kelson.dev/examples/cnat/internal/controller"
)

func main() {
	operator.Main(controller.Parts()...)
}
