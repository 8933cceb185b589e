<!DOCTYPE html>
<html lang="en">
<head><title>{{ config('app.name') }}</title></head>
<body>
@if (session('notice'))<p class="notice">{{ session('notice') }}</p>@endif
@foreach ($errors->all() as $error)<p class="error">{{ $error }}</p>@endforeach
@yield('body')
</body>
</html>
