no tags at all
