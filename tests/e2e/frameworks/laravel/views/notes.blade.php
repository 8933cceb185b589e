@extends('page')
@section('body')
<ol>@foreach ($notes as $note)<li>{{ $note }}</li>@endforeach</ol>
@endsection
