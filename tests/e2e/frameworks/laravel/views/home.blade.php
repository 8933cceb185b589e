@extends('page')
@section('body')
<ul>
@foreach (['/', '/json', '/form', '/notes', '/login', '/account', '/upload', '/cookie', '/redirect', '/stream', '/download', '/error', '/slow', '/state', '/missing'] as $path)
<li><a href="{{ $path }}">{{ $path }}</a></li>
@endforeach
</ul>
@endsection
