// Command main is the operator external-reference of the corpus.
package main

import "kelson.dev/bench/explore/corpus"

func main() { corpus.Run("external-reference") }
